/* Pidfds of single threads stand for the same threads also when these get new ids.
 *
 * expect: survive
 * restart: --ids new
 * flags: -pthread
 * alone: only a job of one process can have new ids
 */
#include "pidfds_of_threads.h"
