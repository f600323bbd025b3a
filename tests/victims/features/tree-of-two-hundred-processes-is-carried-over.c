/* Two hundred processes in a tree of three generations go on after a restart.
 *
 * expect: survive
 * flags: -DPROCESSES=199 -DMEGABYTES=0
 */
#include "forest.h"
