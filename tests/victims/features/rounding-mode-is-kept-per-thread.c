/* Rounding mode, flush-to-zero and raised floating-point exceptions are kept for each thread.
 *
 * expect: survive
 * flags: -lm -frounding-math
 */
#include "check.h"
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <xmmintrin.h>

static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
static pthread_barrier_t ready, go;

static void *thread(void *number)
{
    int mode = modes[(long)number];
    volatile double one = 1.0, three = 3.0;
    CHECK(fesetround(mode) == 0 && feclearexcept(FE_ALL_EXCEPT) == 0);
    double before = one / three;
    CHECK(feclearexcept(FE_ALL_EXCEPT) == 0 && feraiseexcept(mode == FE_UPWARD ? FE_OVERFLOW : FE_DIVBYZERO) == 0);
    if (mode == FE_DOWNWARD)
        _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
    unsigned control = _mm_getcsr();
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&go);
    CHECK(fegetround() == mode && _mm_getcsr() == control);
    CHECK(fetestexcept(FE_DIVBYZERO) == (mode == FE_UPWARD ? 0 : FE_DIVBYZERO));
    CHECK(one / three == before && rint(2.5) == (mode == FE_UPWARD ? 3.0 : 2.0));
    volatile double tiny = 1e-308;
    CHECK((tiny / 1000 == 0) == (mode == FE_DOWNWARD));
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    CHECK(pthread_barrier_init(&ready, NULL, 5) == 0 && pthread_barrier_init(&go, NULL, 5) == 0);
    for (long i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    pthread_barrier_wait(&ready);
    moment("rounding");
    pthread_barrier_wait(&go);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("rounded alike");
    return 0;
}
