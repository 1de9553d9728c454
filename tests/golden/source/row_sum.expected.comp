#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_spirv_intrinsics : require

// reduction_0: 8 threads (1 x 8) a workgroup, rows workgroups
//   reads x: f32[rows, 40]
//   writes y: f32[rows]

// SignedZeroInfNanPreserve for 32-bit floats.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 8) in;
layout(std430, set = 0, binding = 0) restrict readonly buffer aicf_x { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer aicf_y { float y[]; };
layout(push_constant) uniform aicf_parameters { int rows; int workgroup_count; };

void main() {
  // A large grid is folded into three dimensions; what is left over of the last one returns, as a whole workgroup.
  const int workgroup = int(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z));
  if (workgroup >= workgroup_count) return;
  const int lane = int(gl_SubgroupInvocationID);
  int base_i0 = workgroup;
  float y_n1 = 0.0;
  for (int r0_tile = 0; r0_tile < 40; r0_tile += 8) {
    int base_r0 = r0_tile;
    float x_n1;
    int r0_at = base_r0 + lane;
    int x_at = 40 * base_i0 + r0_at;
    x_n1 = x[x_at];
    // accumulate
    y_n1 += exp(x_n1);
  }
  // merge partial states
  float y_n1_xor1 = subgroupShuffleXor(y_n1, 1u);
  float y_n1_merged = y_n1 + y_n1_xor1;
  y_n1 = y_n1_merged;
  float y_n1_xor2 = subgroupShuffleXor(y_n1, 2u);
  float y_n1_merged_n1 = y_n1 + y_n1_xor2;
  y_n1 = y_n1_merged_n1;
  float y_n1_xor4 = subgroupShuffleXor(y_n1, 4u);
  float y_n1_merged_n2 = y_n1 + y_n1_xor4;
  y_n1 = y_n1_merged_n2;
  bool sole = lane == 0;
  if (sole) {
    y[base_i0] = y_n1;
  }
}
