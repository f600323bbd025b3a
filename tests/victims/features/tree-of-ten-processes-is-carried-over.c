/* Ten processes, each with memory and a counter of its own, go on after a restart.
 *
 * expect: survive
 * flags: -DPROCESSES=9 -DMEGABYTES=1
 */
#include "forest.h"
