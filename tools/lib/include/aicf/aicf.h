#ifndef AICF_H
#define AICF_H

/* AICF from C99: the interface of aicf.hpp behind opaque handles and status codes.
 *
 * Every function that can fail returns an aicf_status; aicf_error() then gives one sentence that says what is wrong, where,
 * and what to do when that is known. Results are written to the last parameter, only on success.
 *
 * A handle is valid from the call that makes it until its aicf_close(). A closed handle, a null one and one of another kind
 * are refused (AICF_BAD_INPUT); numbers of handles are not used again. What was made from an object keeps what it needs: a
 * device may be closed before its buffers.
 *
 * Threads: as in aicf.hpp. A handle may be closed while another thread uses it; that call ends as if it were open.
 *
 * Texts are UTF-8 and end with 0. Arrays are a pointer and a number of elements; an empty one may be NULL. */

#include <stddef.h>
#include <stdint.h>

#include <aicf/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum aicf_status {
  AICF_OK = 0,
  AICF_BAD_INPUT = 1,   /* the file, value, name, type, size or handle given is wrong */
  AICF_UNSUPPORTED = 2, /* valid, but AICF or the device cannot do it */
  AICF_RUN_FAILURE = 3, /* the machine failed: memory, files, the driver */
  AICF_DEVICE_LOST = 4  /* the device failed for good: open it again, allocate again, write again */
} aicf_status;

/* Element types; boolean is one byte. Devices hold integers as 32 bits and F64 as F32. */
typedef enum aicf_type {
  AICF_F16,
  AICF_BF16,
  AICF_F32,
  AICF_F64,
  AICF_I8,
  AICF_U8,
  AICF_I16,
  AICF_U16,
  AICF_I32,
  AICF_U32,
  AICF_I64,
  AICF_U64,
  AICF_BOOL
} aicf_type;

typedef struct aicf_builder_handle* aicf_builder;
typedef struct aicf_model_handle* aicf_model;
typedef struct aicf_package_handle* aicf_package;
typedef struct aicf_device_handle* aicf_device;
typedef struct aicf_buffer_handle* aicf_buffer;
typedef struct aicf_executable_handle* aicf_executable;

/* A size: of the symbol `name` where sizes of symbols are asked for. In the shape of a graph's input a dimension of size
 * `value` when `name` is NULL, else a symbol ("seq") or arithmetic of symbols ("2 * seq"). */
typedef struct aicf_size {
  const char* name;
  int64_t value;
} aicf_size;

/* A tensor by name and the memory it lies in. */
typedef struct aicf_binding {
  const char* name;
  aicf_buffer buffer;
} aicf_binding;

typedef enum aicf_attribute_kind {
  AICF_INTEGER,  /* integer */
  AICF_REAL,     /* real */
  AICF_TEXT,     /* text */
  AICF_INTEGERS, /* integers, count */
  AICF_REALS     /* reals, count */
} aicf_attribute_kind;

/* An attribute of an operation, by its ONNX name; `kind` says which member holds the value. */
typedef struct aicf_attribute {
  const char* name;
  aicf_attribute_kind kind;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* integers;
  const double* reals;
  size_t count;
} aicf_attribute;

/* All zero is the default. */
typedef struct aicf_compile_options {
  int no_fusion;               /* every operation alone */
  int optimize_for_first_run;  /* count the driver's compile time as part of the cost */
  const aicf_size* size_hints; /* sizes to plan for where a dimension is symbolic; others run as well */
  size_t size_hint_count;
} aicf_compile_options;

typedef struct aicf_run_report {
  double milliseconds; /* of all launches, transfers excluded */
  size_t launches;
  uint64_t arena_bytes; /* device memory of intermediates */
} aicf_run_report;

AICF_API const char* aicf_version(void);

/* The sentence of this thread's last call that failed; valid until its next call that fails. "" before the first. */
AICF_API const char* aicf_error(void);

/* Ends a handle of any kind. NULL is allowed. */
AICF_API aicf_status aicf_close(void* handle);

/* ---- models --------------------------------------------------------------------------------------------------- */

/* An ONNX file or AICF's text form, told apart by content. `sizes` fixes symbols for good. */
AICF_API aicf_status aicf_model_load(const char* path, const aicf_size* sizes, size_t size_count, aicf_model* model);
AICF_API aicf_status aicf_model_parse(const char* text, const aicf_size* sizes, size_t size_count, aicf_model* model);

/* A graph of ONNX operations. Tensors are known by names that the caller gives; mistakes are found by aicf_builder_build.
 * A builder is for one thread at a time. `opset` of ai.onnx; 0: AICF's default. */
AICF_API aicf_status aicf_builder_create(const char* name, int opset, aicf_builder* builder);
AICF_API aicf_status aicf_builder_input(aicf_builder builder, const char* name, aicf_type type, const aicf_size* shape,
                                        size_t rank);
/* `bytes` of `data` in host layout are copied. */
AICF_API aicf_status aicf_builder_constant(aicf_builder builder, const char* name, aicf_type type, const int64_t* shape,
                                           size_t rank, const void* data, size_t bytes);
/* "" among the inputs is an absent one. */
AICF_API aicf_status aicf_builder_add(aicf_builder builder, const char* op, const char* const* inputs,
                                      size_t input_count, const char* const* outputs, size_t output_count,
                                      const aicf_attribute* attributes, size_t attribute_count);
AICF_API aicf_status aicf_builder_output(aicf_builder builder, const char* tensor);
AICF_API aicf_status aicf_builder_build(aicf_builder builder, const aicf_size* sizes, size_t size_count,
                                        aicf_model* model);

/* ---- packages ------------------------------------------------------------------------------------------------- */

/* `targets`: profiles ("lavapipe", "sm_90"), "cuda-emulation[:PROFILE]", or ids of devices ("vulkan:0"). `options` may be
 * NULL. */
AICF_API aicf_status aicf_compile(aicf_model model, const char* const* targets, size_t target_count,
                                  const aicf_compile_options* options, aicf_package* package);
AICF_API aicf_status aicf_compile_for_device(aicf_model model, aicf_device device, const aicf_compile_options* options,
                                             aicf_package* package);
AICF_API aicf_status aicf_package_load(const char* path, aicf_package* package);
AICF_API aicf_status aicf_package_save(aicf_package package, const char* path);

/* ---- devices -------------------------------------------------------------------------------------------------- */

/* "vulkan", "vulkan:0", "vulkan:PART-OF-NAME", "cuda[:INDEX]", "cuda-emulation[:sm_NN]". */
AICF_API aicf_status aicf_device_open(const char* id, aicf_device* device);
AICF_API aicf_status aicf_device_allocate(aicf_device device, aicf_type type, const int64_t* shape, size_t rank,
                                          aicf_buffer* buffer);
/* Builds the package's kernels for the device and uploads its constants. */
AICF_API aicf_status aicf_device_load(aicf_device device, aicf_package package, aicf_executable* executable);

/* The whole tensor in host layout: `bytes` is the number of its elements times the size of one. */
AICF_API aicf_status aicf_buffer_write(aicf_buffer buffer, aicf_type type, const void* data, size_t bytes);
AICF_API aicf_status aicf_buffer_read(aicf_buffer buffer, aicf_type type, void* data, size_t bytes);
/* The first elements of the same memory as a tensor of another shape. */
AICF_API aicf_status aicf_buffer_view(aicf_buffer buffer, const int64_t* shape, size_t rank, aicf_buffer* view);

/* ---- running -------------------------------------------------------------------------------------------------- */

/* Names of inputs and outputs by position; they live as long as the handle is open. AICF_BAD_INPUT beyond the last. */
AICF_API aicf_status aicf_executable_input(aicf_executable executable, size_t position, const char** name);
AICF_API aicf_status aicf_executable_output(aicf_executable executable, size_t position, const char** name);
/* A buffer for the input or output of that name at these sizes of the symbols. */
AICF_API aicf_status aicf_executable_allocate(aicf_executable executable, const char* tensor, const aicf_size* sizes,
                                              size_t size_count, aicf_buffer* buffer);
/* Runs where the buffers lie and waits. Every input and output is bound to a buffer of the executable's device, of its type
 * and shape; the shapes of the inputs give the sizes of the symbols. An output shares no memory with another binding.
 * `report` may be NULL. */
AICF_API aicf_status aicf_executable_run(aicf_executable executable, const aicf_binding* inputs, size_t input_count,
                                         const aicf_binding* outputs, size_t output_count, aicf_run_report* report);

#ifdef __cplusplus
}
#endif

#endif
