/* The text form of a model, compiled for a device and run twice with buffers that stay there. The results are compared with
 * loops in double.
 *
 *     attention_c [DEVICE] */

#include <aicf/aicf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TAKE(call)                                      \
  do {                                                  \
    if ((call) != AICF_OK) {                            \
      fprintf(stderr, "attention: %s\n", aicf_error()); \
      exit(1);                                          \
    }                                                   \
  } while (0)

enum { WIDTH = 16, ROWS = 5, KEYS = 23 };

static const char* const model_text =
    "attention(Q: f32[q, 16], K: f32[kv, 16], V: f32[kv, 16]) -> out\n"
    "out = MatMul(Softmax(MatMul(Q, Transpose(K, perm=[1, 0])), axis=-1), V)\n";

static void fill(float* values, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

/* Largest difference from the definition, computed in double. */
static double error_of(const float* out, const float* q, const float* k, const float* v) {
  double worst = 0;
  for (int i = 0; i < ROWS; ++i) {
    double p[KEYS], largest = -INFINITY, sum = 0;
    for (int j = 0; j < KEYS; ++j) {
      p[j] = 0;
      for (int d = 0; d < WIDTH; ++d) p[j] += (double)q[i * WIDTH + d] * k[j * WIDTH + d];
      if (p[j] > largest) largest = p[j];
    }
    for (int j = 0; j < KEYS; ++j) sum += p[j] = exp(p[j] - largest);
    for (int e = 0; e < WIDTH; ++e) {
      double o = 0;
      for (int j = 0; j < KEYS; ++j) o += p[j] / sum * v[j * WIDTH + e];
      const double error = fabs(o - out[i * WIDTH + e]);
      if (error > worst) worst = error;
    }
  }
  return worst;
}

int main(int argc, char** argv) {
  aicf_model model;
  aicf_device device;
  aicf_package package;
  aicf_executable attention;
  TAKE(aicf_model_parse(model_text, NULL, 0, &model));
  TAKE(aicf_device_open(argc > 1 ? argv[1] : "vulkan:llvmpipe", &device));
  TAKE(aicf_compile_for_device(model, device, NULL, &package));
  TAKE(aicf_device_load(device, package, &attention));

  float q[ROWS * WIDTH], k[KEYS * WIDTH], v[KEYS * WIDTH], out[ROWS * WIDTH];
  const aicf_size sizes[] = {{"q", ROWS}, {"kv", KEYS}};
  aicf_buffer Q, K, V, result;
  TAKE(aicf_executable_allocate(attention, "Q", sizes, 2, &Q));
  TAKE(aicf_executable_allocate(attention, "K", sizes, 2, &K));
  TAKE(aicf_executable_allocate(attention, "V", sizes, 2, &V));
  TAKE(aicf_executable_allocate(attention, "out", sizes, 2, &result));
  fill(k, KEYS * WIDTH, 1);
  fill(v, KEYS * WIDTH, 2);
  TAKE(aicf_buffer_write(K, AICF_F32, k, sizeof k));
  TAKE(aicf_buffer_write(V, AICF_F32, v, sizeof v));

  const aicf_binding inputs[] = {{"Q", Q}, {"K", K}, {"V", V}}, outputs[] = {{"out", result}};
  double worst = 0;
  for (unsigned run = 1; run <= 2; ++run) {
    aicf_run_report report;
    fill(q, ROWS * WIDTH, 10 * run);
    TAKE(aicf_buffer_write(Q, AICF_F32, q, sizeof q));
    TAKE(aicf_executable_run(attention, inputs, 3, outputs, 1, &report));
    TAKE(aicf_buffer_read(result, AICF_F32, out, sizeof out));
    const double error = error_of(out, q, k, v);
    printf("run %u: %u launches, error %.1e\n", run, (unsigned)report.launches, error);
    if (error > worst) worst = error;
  }

  void* const handles[] = {model, package, device, attention, Q, K, V, result};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) TAKE(aicf_close(handles[i]));
  return worst < 1e-5 ? 0 : 1;
}
