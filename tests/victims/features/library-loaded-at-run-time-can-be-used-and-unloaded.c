/* A library that the program has loaded with dlopen works after a restart and can be unloaded; another can be loaded.
 *
 * expect: survive
 * flags: -ldl
 */
#include "check.h"
#include <dlfcn.h>

typedef double (*function)(double);

int main(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        LACKS("libm.so.6");
    function cosine = (function)(uintptr_t)dlsym(library, "cos");
    CHECK(cosine != NULL && cosine(0.0) == 1.0);
    moment("loaded");
    CHECK(cosine(0.0) == 1.0);
    function root = (function)(uintptr_t)dlsym(library, "floor");
    CHECK(root != NULL && root(27.5) == 27.0 && dlclose(library) == 0);
    moment("unloaded");
    library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(library != NULL);
    cosine = (function)(uintptr_t)dlsym(library, "cos");
    CHECK(cosine != NULL && cosine(0.0) == 1.0);
    puts("loaded, unloaded, loaded");
    return 0;
}
