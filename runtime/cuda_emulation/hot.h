// Included first by the files that run once per emulated access: they are optimised in debug builds too, or the tests
// of kernels would take minutes. Sanitizer builds keep their own level.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O2")
#endif
