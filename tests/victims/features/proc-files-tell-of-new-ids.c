/* Files of /proc about the program and its threads, held open, tell of the life that reads them, also where it has got new ids.
 *
 * expect: survive
 * restart: --ids new
 * alone: only a job of one process can have new ids
 */
#include "proc_files_of_itself.h"
