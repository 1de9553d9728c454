#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_spirv_intrinsics : require

// reduction_0: 8 threads (1 x 8) a workgroup, rows workgroups
//   reads in0: f32[rows, 40]
//   writes out0: f32[rows]

// SignedZeroInfNanPreserve for 32-bit floats.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
layout(local_size_x = 8) in;
layout(std430, set = 0, binding = 0) restrict readonly buffer aicf_in0 { float in0[]; };
layout(std430, set = 0, binding = 1) writeonly buffer aicf_out0 { float out0[]; };
layout(push_constant) uniform aicf_parameters { int rows; int workgroup_count; };

void main() {
  // A large grid is folded into three dimensions; what is left over of the last one returns, as a whole workgroup.
  const int workgroup = int(gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z));
  if (workgroup >= workgroup_count) return;
  const int lane = int(gl_SubgroupInvocationID);
  int base_i0 = workgroup;
  float x1 = 0.0;
  for (int r0_tile = 0; r0_tile < 40; r0_tile += 8) {
    int base_r0 = r0_tile;
    float x0;
    int r0_at = base_r0 + lane;
    int in0_at = 40 * base_i0 + r0_at;
    x0 = in0[in0_at];
    // accumulate
    x1 += exp(x0);
  }
  // merge partial states
  float x1_xor1 = subgroupShuffleXor(x1, 1u);
  float x1_merged = x1 + x1_xor1;
  x1 = x1_merged;
  float x1_xor2 = subgroupShuffleXor(x1, 2u);
  float x1_merged_n1 = x1 + x1_xor2;
  x1 = x1_merged_n1;
  float x1_xor4 = subgroupShuffleXor(x1, 4u);
  float x1_merged_n2 = x1 + x1_xor4;
  x1 = x1_merged_n2;
  bool sole = lane == 0;
  if (sole) {
    out0[base_i0] = x1;
  }
}
