// reduction_0: 32 threads (1 x 32) a workgroup, rows workgroups
//   reads x: f32[rows, 40]
//   writes y: f32[rows]

extern "C" __global__ void AICF_LAUNCH_BOUNDS(32, 1)
reduction_0(const float* __restrict__ x, float* __restrict__ y, int rows, int workgroup_count) {
  const int workgroup = aicf_workgroup();
  if (workgroup >= workgroup_count) return;
  const int lane = aicf_lane();
  int base_i0 = workgroup;
  float y_n1 = 0.0f;
  for (int r0_tile = 0; r0_tile < 40; r0_tile += 64) {
    int base_r0 = r0_tile;
    float x_0, x_1;
    int r0_at = base_r0 + lane * 2;
    bool in_x = r0_at <= 39;
    int x_at = 40 * base_i0 + r0_at;
    x_0 = x_1 = 0.0f;
    if (in_x) {
      aicf_ld_global2(x, x_at, x_0, x_1);
    }
    // accumulate
    y_n1 += r0_at < 40 ? aicf_exp(x_0) : 0.0f;
    y_n1 += r0_at + 1 < 40 ? aicf_exp(x_1) : 0.0f;
  }
  // merge partial states
  float y_n1_xor1 = aicf_shuffle_xor(y_n1, 1);
  float y_n1_merged = y_n1 + y_n1_xor1;
  y_n1 = y_n1_merged;
  float y_n1_xor2 = aicf_shuffle_xor(y_n1, 2);
  float y_n1_merged_n1 = y_n1 + y_n1_xor2;
  y_n1 = y_n1_merged_n1;
  float y_n1_xor4 = aicf_shuffle_xor(y_n1, 4);
  float y_n1_merged_n2 = y_n1 + y_n1_xor4;
  y_n1 = y_n1_merged_n2;
  float y_n1_xor8 = aicf_shuffle_xor(y_n1, 8);
  float y_n1_merged_n3 = y_n1 + y_n1_xor8;
  y_n1 = y_n1_merged_n3;
  float y_n1_xor16 = aicf_shuffle_xor(y_n1, 16);
  float y_n1_merged_n4 = y_n1 + y_n1_xor16;
  y_n1 = y_n1_merged_n4;
  bool sole = lane == 0;
  if (sole) {
    aicf_st_global(y, base_i0, y_n1);
  }
}
