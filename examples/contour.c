/* contour: altitude contours of a byte map.
 *
 * CONTOUR of "Compressed Differences" (1995): two maps of one byte a place in memory, terrain and contours. There is one
 * iteration for each altitude, and its result is that places of that altitude are set in the output map: few bytes of
 * many pages change, which is what compressed differences are for.
 *
 * A place is on the contour of an altitude when it is at least as high and one of its four neighbours is not. Self-checks: on a
 * pyramid the contours are squares of known length; and each place of the map is what the definition says, found from
 * the place and not from the altitude.
 *
 * usage: contour [WIDTH (2816) [HEIGHT (2179) [INTERVAL (4)]]]
 */
#include "example.h"

struct map {
    size_t width, height;
    uint8_t *places;
};

static struct map new_map(size_t width, size_t height)
{
    return (struct map){width, height, memory(width * height)};
}

/* The lowest of the four neighbours that there are. */
static uint8_t lowest_neighbour(const struct map *map, size_t row, size_t col)
{
    const uint8_t *place = map->places + row * map->width + col;
    uint8_t lowest = 255;
    if (row > 0 && place[-(ptrdiff_t)map->width] < lowest)
        lowest = place[-(ptrdiff_t)map->width];
    if (row + 1 < map->height && place[map->width] < lowest)
        lowest = place[map->width];
    if (col > 0 && place[-1] < lowest)
        lowest = place[-1];
    if (col + 1 < map->width && place[1] < lowest)
        lowest = place[1];
    return lowest;
}

/* Sets the contour of one altitude; returns its length in places. */
static size_t draw(const struct map *terrain, struct map *contours, int altitude)
{
    size_t length = 0;
    for (size_t row = 0; row < terrain->height; row++)
        for (size_t col = 0; col < terrain->width; col++) {
            size_t place = row * terrain->width + col;
            if (terrain->places[place] >= altitude && lowest_neighbour(terrain, row, col) < altitude) {
                contours->places[place] = (uint8_t)altitude;
                length++;
            }
        }
    return length;
}

/* Value noise: random heights at the corners of squares, between them linear, added up over squares of five sizes. */
static void raise_terrain(struct map *map)
{
    for (size_t row = 0; row < map->height; row++)
        for (size_t col = 0; col < map->width; col++) {
            uint64_t height = 0;
            for (unsigned octave = 4; octave <= 8; octave++) {
                uint64_t side = (uint64_t)1 << octave, x = col & (side - 1), y = row & (side - 1);
                uint64_t corner[4];
                for (uint64_t at = 0; at < 4; at++)
                    corner[at] = mixed((uint64_t)octave << 56 | ((row >> octave) + at / 2) << 28 | ((col >> octave) + at % 2)) & 255;
                uint64_t top = corner[0] * (side - x) + corner[1] * x, bottom = corner[2] * (side - x) + corner[3] * x;
                /* Its mean over the square weighs as much as the square is wide. */
                height += (top * (side - y) + bottom * y) >> octave;
            }
            map->places[row * map->width + col] = (uint8_t)(height / (16 + 32 + 64 + 128 + 256));
        }
}

/* How many places of the contours of a pyramid are missing or too many: at a distance of r from the top there are 8 r. */
static double pyramid_error(void)
{
    enum { RADIUS = 100, SIDE = 2 * RADIUS + 1 };
    struct map pyramid = new_map(SIDE, SIDE), contours = new_map(SIDE, SIDE);
    for (size_t place = 0; place < SIDE * SIDE; place++) {
        int x = abs((int)(place % SIDE) - RADIUS), y = abs((int)(place / SIDE) - RADIUS);
        pyramid.places[place] = (uint8_t)(RADIUS - (x > y ? x : y));
    }
    double error = 0;
    for (int altitude = 1; altitude < RADIUS; altitude++) {
        double length = (double)draw(&pyramid, &contours, altitude), wanted = 8.0 * (RADIUS - altitude);
        error += length < wanted ? wanted - length : length - wanted;
    }
    free(pyramid.places), free(contours.places);
    return error;
}

/* How many places are not what the definition says of them. */
static double differing(const struct map *terrain, const struct map *contours, int interval)
{
    double places = 0;
    for (size_t row = 0; row < terrain->height; row++)
        for (size_t col = 0; col < terrain->width; col++) {
            size_t place = row * terrain->width + col;
            int highest = terrain->places[place] / interval * interval;
            int wanted = lowest_neighbour(terrain, row, col) < highest ? highest : 0;
            places += contours->places[place] != wanted;
        }
    return places;
}

int main(int count, char **words)
{
    size_t width = (size_t)argument(count, words, 1, 2816, 1, 65536);
    size_t height = (size_t)argument(count, words, 2, 2179, 1, 65536);
    int interval = (int)argument(count, words, 3, 4, 1, 255);
    check("places of a pyramid", pyramid_error(), 0);

    struct map terrain = new_map(width, height), contours = new_map(width, height);
    raise_terrain(&terrain);
    for (int altitude = interval; altitude <= 255; altitude += interval)
        printf("altitude %3d: %zu places\n", altitude, draw(&terrain, &contours, altitude)), fflush(stdout);
    check("places unlike the definition", differing(&terrain, &contours, interval), 0);
    printf("checksum %016llx\n", (unsigned long long)checksum(CHECKSUM_START, contours.places, width * height));
    return 0;
}
