#pragma once

// Kernels that the emulation runs and NVRTC compiles.

namespace aicf::kernels {

/// c = a + b, 256 elements a workgroup.
inline constexpr char kVectorAdd[] = R"(
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  const int i = aicf_workgroup() * 256 + aicf_thread();
  if (i < n) aicf_st_global(c, i, aicf_ld_global(a, i) + aicf_ld_global(b, i));
}
)";

/// C[m, n] = A[m, k] B[k, n]; sizes are multiples of 32. A workgroup of 64 threads makes a 32 x 32 tile, 4 x 4 a
/// thread, from 32 x 32 tiles in two stages of asynchronous copies.
inline constexpr char kTiledMatmul[] = R"(
extern "C" __global__ void tiled_matmul(const float* A, const float* B, float* C, int n, int k, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  AICF_SHARED(float, tiles, 0);
  const int t = aicf_thread();
  const int row0 = workgroup / (n / 32) * 32, column0 = workgroup % (n / 32) * 32;
  const int steps = k / 32;
  float sum[4][4];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) sum[i][j] = 0;
  auto fetch = [&](int step) {
    const int stage = step % 2 * 2048;
    if (step < steps) {
      for (int part = 0; part < 4; ++part) {
        const int row = part * 8 + t / 8, column = t % 8 * 4;
        aicf_cp_async16(tiles, stage + row * 32 + column, A, (row0 + row) * k + step * 32 + column);
        aicf_cp_async16(tiles, stage + 1024 + row * 32 + column, B, (step * 32 + row) * n + column0 + column);
      }
    }
    aicf_cp_async_commit();
  };
  fetch(0);
  for (int step = 0; step < steps; ++step) {
    fetch(step + 1);
    aicf_cp_async_wait<1>();
    aicf_barrier();
    const int stage = step % 2 * 2048;
    for (int kk = 0; kk < 32; ++kk) {
      float a[4], b[4];
      for (int i = 0; i < 4; ++i) a[i] = aicf_ld_shared(tiles, stage + (t / 8 * 4 + i) * 32 + kk);
      aicf_ld_shared4(tiles, stage + 1024 + kk * 32 + t % 8 * 4, b[0], b[1], b[2], b[3]);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] = aicf_fma(a[i], b[j], sum[i][j]);
    }
    aicf_barrier();
  }
  for (int i = 0; i < 4; ++i)
    aicf_st_global4(C, (row0 + t / 8 * 4 + i) * n + column0 + t % 8 * 4, sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}
)";

/// One subgroup a row: sums[row], maxima[row] over x[row, columns].
inline constexpr char kRowReduce[] = R"(
extern "C" __global__ void row_reduce(const float* x, float* sums, float* maxima, int columns, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  const int row = aicf_workgroup() * 4 + aicf_subgroup();
  float sum = 0, maximum = -aicf_inf();
  for (int c = aicf_lane(); c < columns; c += 32) {
    const float v = aicf_ld_global(x, row * columns + c);
    sum += v;
    maximum = aicf_max(maximum, v);
  }
  for (int mask = 16; mask; mask >>= 1) sum += aicf_shuffle_xor(sum, mask);
  for (int mask = 16; mask; mask >>= 1) maximum = aicf_max(maximum, aicf_shuffle_xor(maximum, mask));
  const float first = aicf_shuffle(sum, 0);
  if (aicf_lane() == 31) {
    aicf_st_global(sums, row, first);
    aicf_st_global(maxima, row, maximum);
  }
}
)";

/// D[16, 8] = A[16, k] B[k, 8], f16, one subgroup. Fragments element by element, as their definition says.
inline constexpr char kFragments[] = R"(
extern "C" __global__ void fragments(const unsigned short* A, const unsigned short* B, float* D, int k, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  const int g = aicf_lane() / 4, t = aicf_lane() % 4;
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  auto a = [&](int row, int column) {
    return aicf_pack(aicf_ld_global(A, row * k + column), aicf_ld_global(A, row * k + column + 1));
  };
  auto b = [&](int row) { return aicf_pack(aicf_ld_global(B, row * 8 + g), aicf_ld_global(B, (row + 1) * 8 + g)); };
  for (int k0 = 0; k0 < k; k0 += 16) {
    aicf_mma_m16n8k16_f16(c0, c1, c2, c3, a(g, k0 + 2 * t), a(g + 8, k0 + 2 * t), a(g, k0 + 2 * t + 8),
                          a(g + 8, k0 + 2 * t + 8), b(k0 + 2 * t), b(k0 + 2 * t + 8));
  }
  aicf_st_global2(D, g * 8 + 2 * t, c0, c1);
  aicf_st_global2(D, (g + 8) * 8 + 2 * t, c2, c3);
}
)";

/// The same with bf16 and operands from shared memory through ldmatrix; rows of A are padded to 24 elements.
inline constexpr char kLdmatrix[] = R"(
extern "C" __global__ void ldmatrix_mma(const unsigned short* A, const unsigned short* B, float* D, int k, int workgroup_count) {
  if (aicf_workgroup() >= workgroup_count) return;
  AICF_SHARED(unsigned short, a, 0);
  AICF_SHARED(unsigned short, b, 16 * 24 * 2);
  const int lane = aicf_lane(), g = lane / 4, t = lane % 4;
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    aicf_cp_async16(a, lane / 2 * 24 + lane % 2 * 8, A, lane / 2 * k + k0 + lane % 2 * 8);
    if (lane < 16) aicf_cp_async16(b, lane * 8, B, (k0 + lane) * 8);
    aicf_cp_async_commit();
    aicf_cp_async_wait<0>();
    aicf_warp_sync();
    unsigned a0, a1, a2, a3, b0, b1;
    aicf_ldmatrix_x4(a, (lane % 16) * 24 + lane / 16 * 8, a0, a1, a2, a3);
    aicf_ldmatrix_x2_trans(b, lane % 16 * 8, b0, b1);
    aicf_mma_m16n8k16_bf16(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1);
    aicf_warp_sync();
  }
  aicf_st_global2(D, g * 8 + 2 * t, c0, c1);
  aicf_st_global2(D, (g + 8) * 8 + 2 * t, c2, c3);
}
)";

/// Every intrinsic once, with meaningless results; A, H and D have 4096 elements, C 2048.
inline constexpr char kEveryIntrinsic[] = R"(
extern "C" __global__ void AICF_LAUNCH_BOUNDS(128, 1) every(const float* A, const unsigned short* H, const double* D, float* C, int n, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  const int t = aicf_thread(), lane = aicf_lane(), group = aicf_subgroup();
  AICF_SHARED(float, s, 0);
  AICF_SHARED(unsigned short, h, 4096);
  AICF_SHARED(double, e, 8192);
  aicf_cp_async16(s, 4 * t, A, 4 * t);
  aicf_cp_async8(h, 4 * t, H, 4 * t);
  aicf_cp_async4(h, 512 + 2 * t, H, 2 * t);
  aicf_cp_async16_zfill(s, 512 + 4 * t, A, 4 * t, n > 3 ? 16 : 0);
  aicf_cp_async8_zfill(h, 1024 + 4 * t, H, 4 * t, n > 3 ? 8 : 2);
  aicf_cp_async4_zfill(h, 1536 + 2 * t, H, 2 * t, n > 3 ? 4 : 0);
  aicf_cp_async_commit();
  aicf_cp_async_wait<0>();
  aicf_barrier();
  float a, b, c, d, f, g;
  aicf_ld_global4(A, 4 * t, a, b, c, d);
  aicf_ld_global2(A, 2 * t, f, g);
  aicf_ld_shared2(s, 2 * t, a, f);
  aicf_ld_shared4(s, 4 * t, a, f, g, d);
  double x0, x1, x2, x3, y = aicf_ld_global(D, t);
  aicf_ld_global4(D, 4 * t, x0, x1, x2, x3);
  aicf_st_shared4(e, 4 * t, x0, x1, x2, x3);
  aicf_st_shared2(e, 4 * t, x1, x0);
  aicf_ld_shared4(e, 4 * t, x0, x1, x2, x3);
  unsigned short h0, h1, h2, h3;
  aicf_ld_global4(H, 4 * t, h0, h1, h2, h3);
  unsigned u0, u1, u2, u3, v0, v1, w0, w1, w2, w3, z0, z1;
  aicf_ldmatrix_x4(h, 8 * lane, u0, u1, u2, u3);
  aicf_ldmatrix_x4_trans(h, 8 * lane, w0, w1, w2, w3);
  aicf_ldmatrix_x2(h, 8 * (lane & 15), v0, v1);
  aicf_ldmatrix_x2_trans(h, 8 * (lane & 15), z0, z1);
  aicf_mma_m16n8k16_f16(a, b, c, d, u0, u1, u2, u3, v0, v1);
#if __CUDA_ARCH__ >= 800
  aicf_mma_m16n8k16_bf16(a, b, c, d, w0, w1, w2, w3, z0, z1);
#endif
  a += aicf_shuffle(f, 0) + aicf_shuffle_xor(g, 1) + (float)aicf_shuffle(y, 3) + aicf_shuffle(t, 5) + aicf_shuffle_xor(u0, 2);
  a += aicf_exp(a) + aicf_exp2(b) + aicf_log(aicf_abs(c)) + aicf_sqrt(aicf_abs(d)) + aicf_erf(c) + aicf_tanh(d);
  a += aicf_pow(a, b) + aicf_sin(a) + aicf_cos(b) + aicf_rint(c) + aicf_floor(d) + aicf_ceil(d) + aicf_reciprocal(b);
  a += aicf_min(a, b) + aicf_max(a, b) + aicf_fmin(c, d) + aicf_fmax(c, d) + aicf_fma(a, b, c) + aicf_min(t, 4) + aicf_max(t, 4);
  y += aicf_exp(y) + aicf_log(y) + aicf_erf(y) + aicf_min(y, x0) + aicf_fmax(x1, x2) + aicf_fma(y, x3, x0) + aicf_abs(y) + aicf_pow(y, x1);
  if (aicf_any(aicf_isnan(a)) || aicf_all(aicf_isinf(b)) || aicf_isnan(y) || aicf_isinf(y)) a = aicf_inf();
  const unsigned p = aicf_pack_f16(a, b), q = aicf_pack_bf16(c, d), r = aicf_pack(aicf_f32_to_f16(a), aicf_f32_to_bf16(b));
  a += aicf_f16_to_f32(aicf_lo(p)) + aicf_bf16_to_f32(aicf_hi(q)) + aicf_bits_float(aicf_float_bits(c) ^ r);
  a += h0 + h1 + h2 + h3 + group;
  aicf_st_global4(C, 4 * t, a, b, c, (float)y);
  aicf_st_global2(C, 512 + 2 * t, aicf_nan(), 0);
  aicf_barrier();
  aicf_st_shared(s, t, 0);
  aicf_st_shared4(s, 512 + 4 * t, 0, a, b, c);
  aicf_warp_sync();
  aicf_st_global(C, 1024 + t, aicf_ld_shared(s, t) + aicf_mod(t - 5, 3) + aicf_floordiv(t - 5, 3));
}
)";

}  // namespace aicf::kernels
