# find_package(standfast) defines the targets standfast::standfast (shared) and standfast::static.

get_filename_component(_standfast_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_standfast_prefix "${_standfast_lib}/.." ABSOLUTE)
find_package(Threads REQUIRED)

foreach(_standfast_target standfast static)
  if(NOT TARGET standfast::${_standfast_target})
    if(_standfast_target STREQUAL "static")
      add_library(standfast::static STATIC IMPORTED)
      set_property(TARGET standfast::static PROPERTY IMPORTED_LOCATION "${_standfast_lib}/libstandfast.a")
    else()
      add_library(standfast::standfast SHARED IMPORTED)
      set_property(TARGET standfast::standfast PROPERTY IMPORTED_LOCATION "${_standfast_lib}/libstandfast.so")
    endif()
    set_target_properties(standfast::${_standfast_target} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_standfast_prefix}/include"
      INTERFACE_LINK_LIBRARIES Threads::Threads)
  endif()
endforeach()

unset(_standfast_lib)
unset(_standfast_prefix)
