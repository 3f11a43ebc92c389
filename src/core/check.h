#pragma once
#include <cstdio>
#include <cstdlib>

/// A broken promise inside our own code: say which, and stop at once, in every build.
/// What the world can do to us (files, requests, capacity) is a Result instead.
#define PAGODA_CHECK(cond)                                                            \
  do {                                                                                \
    if (!(cond)) [[unlikely]] {                                                       \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #cond); \
      std::abort();                                                                   \
    }                                                                                 \
  } while (0)

/// The same where it would cost in an inner loop: debug builds only.
#ifdef NDEBUG
#define PAGODA_DCHECK(cond) ((void)0)
#else
#define PAGODA_DCHECK(cond) PAGODA_CHECK(cond)
#endif
