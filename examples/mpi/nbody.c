/* nbody: gravity between particles, by a tree.
 *
 * NBODY of "Diskless Checkpointing" (1998), where it was the multipole tree algorithm. Here it is that of Barnes and Hut
 * (Nature 324, 1986) with monopoles: each step the ranks gather all positions, build the same octree, and push their own
 * particles; time goes in leaps. Particles that are close to each other are close in number as well.
 *
 * Self-checks: the forces on some particles against the sum over all others; and the energy at the end against the start.
 * The checksum does not depend on the number of ranks.
 *
 * usage: mpirun -n RANKS nbody [PARTICLES (15000) [STEPS (10)]]
 */
#include <math.h>

#include "parallel.h"

enum { LEVELS_MAX = 40, SAMPLES = 50 };

/* A cell is opened where it is wider than this times its distance. */
static const double OPENING = 0.4, SOFTENING = 0.02, LEAP = 0.0005;

struct vector {
    double x, y, z;
};

/* A cube of the tree. A leaf has no children and one particle, or several at one place. */
struct cube {
    struct vector middle, centre; /* of the cube, of its mass */
    double half, mass;
    int children[8], particle, is_leaf;
};

static size_t particles, first, own;
static struct vector *places, *speeds; /* of all; of the own ones */
static struct cube *cubes;
static size_t cube_count, cube_room;

static struct vector minus(struct vector a, struct vector b)
{
    return (struct vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

static double square(struct vector a)
{
    return a.x * a.x + a.y * a.y + a.z * a.z;
}

static double chance(uint64_t index)
{
    return (double)(mixed(index) >> 11) / 9007199254740992.0;
}

static uint64_t spread(uint64_t bits)
{
    uint64_t result = 0;
    for (int bit = 0; bit < 10; bit++)
        result |= (bits >> bit & 1) << 3 * bit;
    return result;
}

/* Along Morton's curve, particles that are close to each other come soon after each other. */
static uint64_t morton(const struct vector *place)
{
    return spread((uint64_t)(place->x * 1023)) | spread((uint64_t)(place->y * 1023)) << 1 |
           spread((uint64_t)(place->z * 1023)) << 2;
}

static int by_curve(const void *one, const void *other)
{
    uint64_t a = morton(one), b = morton(other);
    return a != b ? (a > b) - (a < b) : memcmp(one, other, sizeof(struct vector));
}

/* A cube of particles at rest, the same on all ranks. */
static void scatter(void)
{
    places = memory(particles * sizeof *places);
    for (size_t at = 0; at < particles; at++)
        places[at] = (struct vector){chance(3 * at), chance(3 * at + 1), chance(3 * at + 2)};
    qsort(places, particles, sizeof *places, by_curve);
    first = first_of(rank, particles);
    own = first_of(rank + 1, particles) - first;
    speeds = memory((own + 1) * sizeof *speeds);
}

static int new_cube(struct vector middle, double half)
{
    if (cube_count == cube_room) {
        cube_room = 2 * cube_room + 1024;
        cubes = realloc(cubes, cube_room * sizeof *cubes);
        if (!cubes)
            fail("memory for the tree");
    }
    cubes[cube_count] = (struct cube){.middle = middle, .half = half, .particle = -1, .is_leaf = 1};
    for (int child = 0; child < 8; child++)
        cubes[cube_count].children[child] = -1;
    return (int)cube_count++;
}

/* The child of a cube in which a place lies, made if need be. */
static int child_towards(int parent, struct vector place)
{
    struct vector middle = cubes[parent].middle;
    double half = cubes[parent].half / 2;
    int octant = (place.x > middle.x) | (place.y > middle.y) << 1 | (place.z > middle.z) << 2;
    if (cubes[parent].children[octant] < 0) {
        middle.x += octant & 1 ? half : -half;
        middle.y += octant & 2 ? half : -half;
        middle.z += octant & 4 ? half : -half;
        int child = new_cube(middle, half);
        cubes[parent].children[octant] = child;
    }
    return cubes[parent].children[octant];
}

static void insert(int particle)
{
    int at = 0;
    for (int level = 0; level < LEVELS_MAX; level++) {
        if (cubes[at].is_leaf && cubes[at].particle < 0) {
            cubes[at].particle = particle;
            return;
        }
        if (cubes[at].is_leaf) {
            int resident = cubes[at].particle;
            cubes[at].is_leaf = 0;
            cubes[at].particle = -1;
            int child = child_towards(at, places[resident]);
            cubes[child].particle = resident;
        }
        at = child_towards(at, places[particle]);
    }
    fail("two particles at one place");
}

static double mass_of_each(void)
{
    return 1.0 / (double)particles;
}

/* Mass and centre of each cube; children have higher numbers than their parents. */
static void weigh(void)
{
    for (size_t at = cube_count; at-- > 0;) {
        struct cube *cube = cubes + at;
        if (cube->particle >= 0) {
            cube->mass = mass_of_each();
            cube->centre = places[cube->particle];
            continue;
        }
        for (int child = 0; child < 8; child++) {
            if (cube->children[child] < 0)
                continue;
            const struct cube *part = cubes + cube->children[child];
            cube->mass += part->mass;
            cube->centre.x += part->mass * part->centre.x;
            cube->centre.y += part->mass * part->centre.y;
            cube->centre.z += part->mass * part->centre.z;
        }
        cube->centre.x /= cube->mass;
        cube->centre.y /= cube->mass;
        cube->centre.z /= cube->mass;
    }
}

static void build_tree(void)
{
    double reach = 1;
    for (size_t at = 0; at < particles; at++)
        reach = fmax(reach, fmax(fabs(places[at].x), fmax(fabs(places[at].y), fabs(places[at].z))));
    cube_count = 0;
    new_cube((struct vector){0, 0, 0}, reach);
    for (size_t at = 0; at < particles; at++)
        insert((int)at);
    weigh();
}

static void pull(struct vector *force, struct vector away, double mass)
{
    double distance = square(away) + SOFTENING * SOFTENING, strength = mass / (distance * sqrt(distance));
    force->x += strength * away.x;
    force->y += strength * away.y;
    force->z += strength * away.z;
}

/* The acceleration of a particle, by a walk through the tree. */
static struct vector acceleration(int particle)
{
    struct vector force = {0, 0, 0};
    int stack[8 * LEVELS_MAX], depth = 0;
    stack[depth++] = 0;
    while (depth) {
        const struct cube *cube = cubes + stack[--depth];
        struct vector away = minus(cube->centre, places[particle]);
        if (cube->particle == particle)
            continue;
        if (cube->is_leaf || 4 * cube->half * cube->half < OPENING * OPENING * square(away)) {
            pull(&force, away, cube->mass);
            continue;
        }
        for (int child = 0; child < 8; child++)
            if (cube->children[child] >= 0)
                stack[depth++] = cube->children[child];
    }
    return force;
}

/* Positions of all particles from those that own them. */
static void gather(void)
{
    int *counts = memory((size_t)ranks * sizeof *counts), *starts = memory((size_t)ranks * sizeof *starts);
    for (int of = 0; of < ranks; of++) {
        starts[of] = (int)(3 * first_of(of, particles));
        counts[of] = (int)(3 * first_of(of + 1, particles)) - starts[of];
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, places, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
    free(counts), free(starts);
}

/* Speeds change by so much of a leap's acceleration. */
static void kick(double share)
{
    for (size_t at = 0; at < own; at++) {
        struct vector force = acceleration((int)(first + at));
        speeds[at].x += share * LEAP * force.x;
        speeds[at].y += share * LEAP * force.y;
        speeds[at].z += share * LEAP * force.z;
    }
}

static void drift(void)
{
    for (size_t at = 0; at < own; at++) {
        places[first + at].x += LEAP * speeds[at].x;
        places[first + at].y += LEAP * speeds[at].y;
        places[first + at].z += LEAP * speeds[at].z;
    }
}

/* The largest error of a force against the sum over all particles, as a part of the mean force. */
static double force_error(void)
{
    double worst = 0, mean = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        int particle = (int)(mixed(sample) % particles);
        struct vector exact = {0, 0, 0};
        for (size_t other = 0; other < particles; other++)
            if ((int)other != particle)
                pull(&exact, minus(places[other], places[particle]), mass_of_each());
        worst = fmax(worst, sqrt(square(minus(exact, acceleration(particle)))));
        mean += sqrt(square(exact)) / SAMPLES;
    }
    return worst / mean;
}

/* The energy of the own particles, each pair counted half on each side. */
static double own_energy(void)
{
    double energy = 0;
    for (size_t at = first; at < first + own; at++) {
        energy += mass_of_each() * square(speeds[at - first]) / 2;
        for (size_t other = 0; other < particles; other++)
            if (other != at)
                energy -= mass_of_each() * mass_of_each() / 2 /
                          sqrt(square(minus(places[other], places[at])) + SOFTENING * SOFTENING);
    }
    return energy;
}

static double energy(void)
{
    double part = own_energy(), sum;
    MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int main(int count, char **words)
{
    start(&count, &words);
    particles = (size_t)argument(count, words, 1, 15000, 2, 10000000);
    long steps = argument(count, words, 2, 10, 1, 1000000000);
    scatter();
    build_tree();
    double before = energy();
    long step = 1;
    standfast_protect(0, &step, sizeof step);
    standfast_protect(1, places, particles * sizeof *places);
    standfast_protect(2, speeds, own * sizeof *speeds);
    if (standfast_restored())
        build_tree();
    for (; step <= steps; step++) {
        if (standfast_due())
            standfast_checkpoint();
        kick(0.5);
        drift();
        gather();
        build_tree();
        kick(0.5);
    }
    check_all("error of a force", force_error(), 0.02);
    check_all("change of energy", fabs(energy() / before - 1), 1e-4);
    uint64_t hash = checksum_all(CHECKSUM_START, speeds, own * sizeof *speeds);
    finish(checksum_all(hash, places + first, own * sizeof *places));
    return 0;
}
