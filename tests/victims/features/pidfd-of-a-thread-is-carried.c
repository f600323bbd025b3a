/* Pidfds that stand for single threads stand for the same ones again: a signal sent by one reaches that thread, and it
 * becomes readable when the thread ends.
 *
 * expect: survive
 * flags: -pthread
 */
#include "pidfds_of_threads.h"
