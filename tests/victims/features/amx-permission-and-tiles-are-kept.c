/* The permission to use matrix registers (AMX), and what they hold, are kept.
 *
 * expect: survive
 * flags: -mamx-tile
 */
#include "check.h"
#include <immintrin.h>
#include <sys/syscall.h>

enum { GET_PERMISSION = 0x1022, ASK_PERMISSION = 0x1023, TILE_DATA = 18, ROWS = 16, ROW_BYTES = 64 };

int main(void)
{
    /* The layout of LDTILECFG: palette, first row, and for each tile its bytes in a row and its rows. */
    static struct {
        uint8_t palette, first_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((packed, aligned(64))) shape = {.palette = 1};
    static uint8_t in[ROWS][ROW_BYTES], out[ROWS][ROW_BYTES];
    uint64_t state = 5, allowed = 0;
    if (syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) != 0)
        LACKS("matrix registers (AMX)");
    for (int tile = 0; tile < 8; tile++) {
        shape.row_bytes[tile] = ROW_BYTES;
        shape.rows[tile] = ROWS;
    }
    for (size_t i = 0; i < sizeof in; i++)
        in[i / ROW_BYTES][i % ROW_BYTES] = (uint8_t)next_number(&state);
    _tile_loadconfig(&shape);
    _tile_loadd(3, in, ROW_BYTES);
    moment("loaded");
    _tile_stored(3, out, ROW_BYTES);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK(syscall(SYS_arch_prctl, GET_PERMISSION, &allowed) == 0 && (allowed >> TILE_DATA & 1) == 1);
    moment("stored");
    _tile_loadd(5, in, ROW_BYTES);
    memset(out, 0, sizeof out);
    _tile_stored(5, out, ROW_BYTES);
    CHECK(memcmp(in, out, sizeof in) == 0);
    _tile_release();
    puts("tiles are kept");
    return 0;
}
