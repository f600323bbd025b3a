/* nnet: a sparse network of neurons that learns patterns from noisy input and calls them to mind.
 *
 * NNET of "Memory Exclusion" (1996): 22,500 nodes and 900,000 links, all allocated at the start, in each of which a few bytes
 * are read-only for ever and the others change in each iteration. Pages are no measure for that: every page changes. So
 * the read-only bytes of each node and link are excluded one by one, in close on a million regions.
 *
 * The network is Hopfield's (1982), diluted (Derrida, Gardner, Zippelius 1987): each iteration a pattern is shown with a tenth
 * of its elements turned, each link learns by Hebb's rule, and the nodes settle. Self-checks: the weight of a link is exactly
 * the sum of what its two ends were shown; and what the network settles at is the pattern without the noise.
 *
 * usage: nnet [NODES (22500) [LINKS PER NODE (40) [ITERATIONS (187)]]]
 */
#include "example.h"

enum { PATTERNS = 4, SWEEPS = 3, SAMPLED_LINKS = 1000 };

/* The first three never change once the network is made. */
struct link {
    uint32_t from, to;
    float gain;
    float weight;
};

struct node {
    uint32_t first, links;
    float threshold;
    float state;
};

static uint32_t node_count, link_count;
static struct node *nodes;
static struct link *links;

static float sign(uint64_t bits)
{
    return bits & 1 ? 1 : -1;
}

static float element(long pattern, uint32_t node)
{
    return sign(mixed((uint64_t)pattern << 32 | node));
}

/* What `node` is shown in an iteration: its element of a pattern, turned once in ten times. */
static float shown(long iteration, uint32_t node)
{
    float clean = element(iteration % PATTERNS, node);
    return mixed(mixed((uint64_t)iteration) ^ node) % 10 == 0 ? -clean : clean;
}

static void make_network(uint32_t links_per_node)
{
    nodes = memory(node_count * sizeof *nodes);
    links = memory(link_count * sizeof *links);
    for (uint32_t to = 0; to < node_count; to++) {
        nodes[to] = (struct node){to * links_per_node, links_per_node, 0, 0};
        for (uint32_t at = 0; at < links_per_node; at++) {
            uint32_t index = nodes[to].first + at;
            uint64_t bits = mixed(0x6c696e6bu + index);
            /* Any node but itself; links are of unequal strength. */
            uint32_t from = (uint32_t)((to + 1 + (bits >> 8) % (node_count - 1)) % node_count);
            links[index] = (struct link){from, to, 0.75f + (float)(bits & 255) / 1024, 0};
        }
    }
}

static void learn(long iteration)
{
    for (uint32_t node = 0; node < node_count; node++)
        nodes[node].state = shown(iteration, node);
    for (uint32_t index = 0; index < link_count; index++)
        links[index].weight += nodes[links[index].from].state * nodes[links[index].to].state;
}

static void settle(void)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t index = 0; index < node_count; index++) {
            struct node *node = nodes + index;
            float field = 0;
            for (uint32_t at = node->first; at < node->first + node->links; at++)
                field += links[at].gain * links[at].weight * nodes[links[at].from].state;
            node->state = field >= node->threshold ? 1 : -1;
        }
}

/* The share of the nodes that are not as in the pattern. */
static double forgotten(long pattern)
{
    double wrong = 0;
    for (uint32_t node = 0; node < node_count; node++)
        wrong += nodes[node].state != element(pattern, node);
    return wrong / node_count;
}

/* How far the weights of some links are from what they were shown. */
static double weight_error(long iterations)
{
    double largest = 0;
    for (uint32_t sample = 0; sample < SAMPLED_LINKS; sample++) {
        const struct link *link = links + mixed(sample) % link_count;
        double sum = 0;
        for (long iteration = 0; iteration < iterations; iteration++)
            sum += shown(iteration, link->from) * shown(iteration, link->to);
        double error = sum < link->weight ? link->weight - sum : sum - link->weight;
        largest = error > largest ? error : largest;
    }
    return largest;
}

int main(int count, char **words)
{
    node_count = (uint32_t)argument(count, words, 1, 22500, 1000, 4000000);
    long links_per_node = argument(count, words, 2, 40, 40, 1000);
    /* Noise is learnt as well when there are few; and sums of plus and minus ones are exact in a float up to 2^24. */
    long iterations = argument(count, words, 3, 187, 10 * PATTERNS, 1 << 24);
    link_count = node_count * (uint32_t)links_per_node;
    make_network((uint32_t)links_per_node);
    for (uint32_t index = 0; index < node_count; index++)
        exclude_bytes(nodes + index, offsetof(struct node, state), CKPT_READONLY);
    for (uint32_t index = 0; index < link_count; index++)
        exclude_bytes(links + index, offsetof(struct link, weight), CKPT_READONLY);

    double worst = 0;
    for (long iteration = 0; iteration < iterations; iteration++) {
        learn(iteration);
        settle();
        double wrong = forgotten(iteration % PATTERNS);
        if (iteration >= iterations - PATTERNS && wrong > worst)
            worst = wrong;
    }
    check("error of a weight", weight_error(iterations), 0);
    check("share of a pattern forgotten", worst, 0.02);
    uint64_t hash = CHECKSUM_START;
    for (uint32_t index = 0; index < link_count; index++)
        hash = checksum(hash, &links[index].weight, sizeof links[index].weight);
    printf("checksum %016llx\n", (unsigned long long)hash);
    return 0;
}
