# `cmake --build build/release --target package_documents && cpack -G DEB` (in the build folder): a Debian package of the binary, a systemd unit, a default configuration,
# manual pages made from --help, and shell completions. tests/package checks it.
set(PAGODA_MAINTAINER "The Pagoda developers <developers@pagoda.invalid>" CACHE STRING "Whom the package names")
set(package_dir ${CMAKE_BINARY_DIR}/package)
set(man_verbs serve run pull list inspect plan bench verify cache eval)

set(manual ${package_dir}/pagoda.1.gz)
list(TRANSFORM man_verbs REPLACE "(.+)" "${package_dir}/pagoda-\\1.1.gz" OUTPUT_VARIABLE verb_manuals)
add_custom_command(
  OUTPUT ${manual} ${verb_manuals} ${package_dir}/pagoda.bash ${package_dir}/_pagoda ${package_dir}/pagoda.fish
         ${package_dir}/changelog.gz
  COMMAND ${CMAKE_SOURCE_DIR}/packaging/make_documents $<TARGET_FILE:pagoda> ${CMAKE_SOURCE_DIR}/CHANGELOG.md
          ${PAGODA_MAINTAINER} ${package_dir} ${man_verbs}
  DEPENDS pagoda ${CMAKE_SOURCE_DIR}/packaging/make_documents ${CMAKE_SOURCE_DIR}/CHANGELOG.md
  VERBATIM COMMENT "manual pages and completions")
add_custom_target(package_documents DEPENDS ${manual})

install(TARGETS pagoda RUNTIME DESTINATION bin)
install(FILES ${manual} ${verb_manuals} DESTINATION share/man/man1)
install(FILES ${package_dir}/pagoda.bash DESTINATION share/bash-completion/completions RENAME pagoda)
install(FILES ${package_dir}/_pagoda DESTINATION share/zsh/vendor-completions)
install(FILES ${package_dir}/pagoda.fish DESTINATION share/fish/vendor_completions.d)
install(FILES packaging/pagoda.service DESTINATION /usr/lib/systemd/system)
install(FILES packaging/pagoda.conf DESTINATION /etc/default RENAME pagoda)
install(FILES packaging/copyright ${package_dir}/changelog.gz README.md DESTINATION share/doc/pagoda)
install(DIRECTORY contrib/prometheus contrib/grafana DESTINATION share/doc/pagoda/examples
        FILES_MATCHING PATTERN "*.yml" PATTERN "*.json")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pagoda)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR OFF)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${PAGODA_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.54)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference and serving engine for large language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Serves GGUF models on CPUs behind OpenAI's API: paged KV cache, prefix caching,
continuous batching, chunked prefill. The same request gives the same bytes,
whatever the batch, the cache, the threads or a restart.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/packaging/conffiles ${CMAKE_SOURCE_DIR}/packaging/postinst
    ${CMAKE_SOURCE_DIR}/packaging/prerm ${CMAKE_SOURCE_DIR}/packaging/postrm)
include(CPack)
