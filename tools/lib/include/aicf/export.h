#ifndef AICF_EXPORT_H
#define AICF_EXPORT_H

/* Symbols of the shared library that belong to its interface; all others are hidden. */
#define AICF_API __attribute__((visibility("default")))

#endif
