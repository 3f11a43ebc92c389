# pagoda_layer(NAME DEPS other layers... LIBS outside libraries...)
#   src/NAME/**/*.cc            -> static library pagoda_NAME
#   src/NAME/**/*_test.cc       -> one test program pagoda_NAME_test, run by ctest from the source folder
#   src/NAME/**/*_bench.cc      -> one Google Benchmark program pagoda_NAME_bench, built on demand
#   src/NAME/**/x86_avx512*.cc  -> a second time in the release preset's test program, emulated (kernels/avx512.h)
function(pagoda_layer name)
  cmake_parse_arguments(LAYER "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")

  list(TRANSFORM LAYER_DEPS PREPEND pagoda_)
  if(sources)
    add_library(pagoda_${name} STATIC ${sources})
    target_link_libraries(pagoda_${name} PUBLIC ${LAYER_DEPS} ${LAYER_LIBS})
  else()
    add_library(pagoda_${name} INTERFACE)
    target_link_libraries(pagoda_${name} INTERFACE ${LAYER_DEPS} ${LAYER_LIBS})
  endif()

  # ISA flags follow the file's name: no target-wide -march, ever. Sanitized builds keep their -O1: at -O3 the
  # instrumented, unrolled kernels take a minute a file to compile and run no faster.
  set(optimise "$<$<NOT:$<CONFIG:Debug>>:-O3>")
  set(quiet "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")  # undefined operands in GCC 12's own intrinsics
  foreach(file IN LISTS sources)
    if(file MATCHES "/x86_avx2[a-z0-9_]*\\.cc$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${optimise};-mavx2;-mfma;-mf16c")
    elseif(file MATCHES "/x86_avx512[a-z0-9_]*\\.cc$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
        "${optimise};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;${quiet}")
    elseif(file MATCHES "/src/kernels/")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${optimise}")
    endif()
  endforeach()

  # Sanitized code of layers that compute little: half the time to compile, little more to run.
  if(name MATCHES "^(api|metrics|sizing)$")
    target_compile_options(pagoda_${name} PRIVATE $<$<CONFIG:Debug>:-O0>)
  endif()

  # The matmul's register tiles take minutes to compile with instrumentation. Sanitizers see the portable kernels, which
  # read the same layout; matmul_test.cc puts the AVX2 ones' buffers against guard pages in every preset.
  foreach(file IN LISTS sources)
    if(file MATCHES "/matmul/x86_[a-z0-9_]*\\.cc$")
      set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS "-fno-sanitize=all")
    endif()
  endforeach()

  if(tests)
    set(emulated)
    if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)  # they are compiled without sanitizers: once is enough
      pagoda_emulated_avx512(emulated ${sources})
    endif()
    add_executable(pagoda_${name}_test ${tests} ${emulated})
    target_link_libraries(pagoda_${name}_test PRIVATE pagoda_${name} GTest::gmock GTest::gtest_main)
    # Tests are optimised less than what they test: half the time to build, little more to run.
    target_compile_options(pagoda_${name}_test PRIVATE -Wno-conversion $<IF:$<CONFIG:Debug>,-O0,-O1>)
    pagoda_precompiled_gmock(pagoda_${name}_test)
    target_compile_definitions(pagoda_${name}_test PRIVATE
      PAGODA_SOURCE_DIR="${CMAKE_SOURCE_DIR}" PAGODA_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared")
    if(emulated)
      target_compile_definitions(pagoda_${name}_test PRIVATE PAGODA_TEST_EMULATED)  # for the lists in kernels.inc
    endif()
    add_dependencies(pagoda_tests pagoda_${name}_test)
    add_test(NAME ${name} COMMAND pagoda_${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  endif()
  if(benches)
    find_package(benchmark REQUIRED)
    add_executable(pagoda_${name}_bench EXCLUDE_FROM_ALL ${benches})
    target_link_libraries(pagoda_${name}_bench PRIVATE pagoda_${name} benchmark::benchmark_main)
    target_compile_options(pagoda_${name}_bench PRIVATE -Wno-conversion)
    target_compile_definitions(pagoda_${name}_bench PRIVATE PAGODA_SHARED_DIR="${CMAKE_SOURCE_DIR}/../shared")
  endif()
endfunction()

# pagoda_emulated_avx512(OUT sources...): OUT is a list of sources that compile the x86_avx512*.cc among `sources` for the
# tests, with every 512-bit intrinsic emulated. A source has one set of options, so these are files of their own.
function(pagoda_emulated_avx512 out)
  set(emulated)
  foreach(file IN LISTS ARGN)
    if(file MATCHES "/x86_avx512[a-z0-9_]*\\.cc$" AND NOT file MATCHES "/machine_rates/")  # loops to time, not results
      file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR}/src ${file})
      set(copy ${CMAKE_BINARY_DIR}/emulated/${relative})
      file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"${relative}\"\n")
      set_source_files_properties(${copy} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
        "-O1;-g0;-mavx2;-mfma;-mf16c;-DPAGODA_EMULATE_AVX512;-fno-sanitize=all;-Wno-psabi;${quiet}")
      list(APPEND emulated ${copy})
    endif()
  endforeach()
  set(${out} ${emulated} PARENT_SCOPE)
endfunction()

# gmock's headers are half of a small test's compile time: one precompiled copy for all test programs. Only GCC's, whose
# copies the compiler cache keeps, too.
function(pagoda_precompiled_gmock target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache's condition
  get_property(first GLOBAL PROPERTY PAGODA_PRECOMPILED_GMOCK)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <random>)
    set_property(GLOBAL PROPERTY PAGODA_PRECOMPILED_GMOCK ${target})
  endif()
endfunction()
