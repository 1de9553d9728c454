# glslang and SPIRV-Tools, as the target aicf_shader_tools: the C interface of glslang (the C++ one changes between
# versions), its default resource limits, and the SPIR-V optimizer and validator.
# Debian, Ubuntu: glslang-dev, spirv-tools.

find_package(Threads REQUIRED)
find_package(SPIRV-Tools CONFIG REQUIRED)
find_package(SPIRV-Tools-opt CONFIG REQUIRED)
find_package(SPIRV-Tools-link CONFIG QUIET)  # named by glslang's own targets
find_package(glslang CONFIG REQUIRED)

add_library(aicf_shader_tools INTERFACE)
# Newer versions merge libraries; what is gone is part of glslang::glslang or SPIRV-Tools there.
foreach(part glslang::SPIRV glslang::glslang glslang::glslang-default-resource-limits SPIRV-Tools-opt
        SPIRV-Tools-static)
  if(TARGET ${part})
    target_link_libraries(aicf_shader_tools INTERFACE ${part})
  endif()
endforeach()
