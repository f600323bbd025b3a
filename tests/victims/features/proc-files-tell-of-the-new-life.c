/* Files of /proc about the program and its threads, held open, tell of the life that reads them, at their offsets and with their
 * flags.
 *
 * expect: survive
 */
#include "proc_files_of_itself.h"
