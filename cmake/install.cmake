# What is installed and packaged: programs, libraries, headers, find_package, pkg-config, a .deb.
# cmake --install: trainrun, the headers, the rooms as static libraries, and find_package(Lockstep) with the target Lockstep::lockstep.
install(TARGETS trainrun RUNTIME DESTINATION bin)
install(TARGETS lockstep EXPORT LockstepTargets)
install(DIRECTORY core compiler distributed checkpoint launcher DESTINATION include/lockstep FILES_MATCHING PATTERN "*.h")
install(FILES lockstep.h lockstep_backend.h DESTINATION include/lockstep)
install(FILES LICENSE NOTICE DESTINATION share/doc/lockstep)
install(DIRECTORY configs examples DESTINATION share/lockstep FILES_MATCHING PATTERN "*.json" PATTERN "*.md" PATTERN "*.cpp" PATTERN "*.py")
install(EXPORT LockstepTargets NAMESPACE Lockstep:: DESTINATION lib/cmake/Lockstep)
if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD)
  export(EXPORT LockstepTargets FILE ${PROJECT_BINARY_DIR}/LockstepRooms.cmake)  # which `pip install .` takes from build/
endif()
file(WRITE ${PROJECT_BINARY_DIR}/LockstepConfig.cmake "include(CMakeFindDependencyMacro)
foreach(package Threads nlohmann_json spdlog CLI11)
  find_dependency(\${package})
endforeach()
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(MPI COMPONENTS CXX)
include(\${CMAKE_CURRENT_LIST_DIR}/LockstepTargets.cmake)
")
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/LockstepConfig.cmake ${PROJECT_BINARY_DIR}/LockstepConfigVersion.cmake DESTINATION lib/cmake/Lockstep)

# What trainrun says of itself, for man, shells and editors.
set(told ${PROJECT_BINARY_DIR}/told)
set(told_files)
function(lockstep_told file destination)
  get_filename_component(name ${file} NAME)
  add_custom_command(OUTPUT ${told}/${file} COMMAND ${CMAKE_COMMAND} -E make_directory ${told}
    COMMAND trainrun ${ARGN} > ${told}/${file} DEPENDS trainrun VERBATIM)
  install(FILES ${told}/${file} DESTINATION ${destination})
  set(told_files ${told_files} ${told}/${file} PARENT_SCOPE)
endfunction()
if(NOT SKBUILD AND PROJECT_IS_TOP_LEVEL AND NOT LOCKSTEP_FUZZ)
  lockstep_told(trainrun.1 share/man/man1 man)
  lockstep_told(trainrun share/bash-completion/completions completion bash)
  lockstep_told(_trainrun share/zsh/vendor-completions completion zsh)
  lockstep_told(trainrun.fish share/fish/vendor_completions.d completion fish)
  lockstep_told(lockstep.schema.json share/lockstep show --schema)
  add_custom_target(lockstep_told ALL DEPENDS ${told_files})
endif()

# pkg-config --cflags --libs lockstep: a linker minds the order of static libraries, and in a group it does not.
get_property(rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)
list(TRANSFORM rooms PREPEND -l OUTPUT_VARIABLE room_flags)
list(JOIN room_flags " " room_flags)
if(LOCKSTEP_BACKTRACE)
  set(backtrace_flag " -lbacktrace")
endif()
file(WRITE ${PROJECT_BINARY_DIR}/lockstep.pc "prefix=\${pcfiledir}/../..
Name: lockstep
Description: Distributed training whose step is one compiled program
Version: ${PROJECT_VERSION}
Requires: spdlog
Cflags: -std=c++20 -fopenmp -I\${prefix}/include/lockstep
Libs: -fopenmp -L\${prefix}/lib/lockstep -Wl,--start-group ${room_flags} -Wl,--end-group -ldnnl -lxxhash -lsodium -lcurl -lexpat -lpcre2-8 -lutf8proc -lsentencepiece -lpng -ljpeg -lz -lpmix -lmpi_cxx -lmpi -ldl -lpthread${backtrace_flag}
")
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION lib/pkgconfig)

# cpack: a package of Debian. Kernels are compiled where a run trains, so the compiler is needed there.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # what is packaged is built before: trainrun and lockstep_told
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_CONTACT "Lockstep")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Distributed training whose step is one compiled program")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++, openmpi-bin")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cmake, pkg-config, libopenmpi-dev, libpmix-dev, libdnnl-dev, nlohmann-json3-dev, libcli11-dev, libspdlog-dev, libxxhash-dev, libsodium-dev, libcurl4-openssl-dev, libexpat1-dev, libpcre2-dev, libutf8proc-dev, libsentencepiece-dev, libpng-dev, libjpeg62-turbo-dev, zlib1g-dev, libboost-dev")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "fortunes")  # the text of configs/quickstart.json
set(CPACK_STRIP_FILES ON)
include(CPack)
