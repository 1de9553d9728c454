// Preloaded under the address sanitizer: libraries stay loaded, so that the leak report can name a driver's.

extern "C" int dlclose(void* /*library*/) {
  return 0;
}
