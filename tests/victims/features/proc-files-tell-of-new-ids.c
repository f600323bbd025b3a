/* Files of /proc about the program and its threads, held open, tell of the life that reads them, also where it has got new ids.
 *
 * expect: survive
 * restart: --ids new
 */
#include "proc_files_of_itself.h"
