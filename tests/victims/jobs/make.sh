# A small C project, built with four jobs at a time.
mkdir -p project && cd project || exit 1
for unit in $(seq 1 24); do
    {
        echo "#include <stdio.h>"
        for f in $(seq 1 40); do
            echo "int f${unit}_$f(int x) { int s = $f; for (int i = 0; i < x; i++) s = s * 31 + (i ^ $unit); return s; }"
        done
        echo "int unit$unit(void) { return f${unit}_1(3) + f${unit}_40(5); }"
    } > "unit$unit.c"
done
{
    echo "#include <stdio.h>"
    for unit in $(seq 1 24); do echo "int unit$unit(void);"; done
    echo "int main(void) { unsigned s = 0;"
    for unit in $(seq 1 24); do echo "s = s * 17 + unit$unit();"; done
    echo 'printf("%u\n", s); return 0; }'
} > main.c
cat > Makefile <<'END'
objects = $(patsubst %.c,%.o,$(wildcard *.c))
# Through pipes: a compiler's files in /tmp, which it closes and opens again, are nobody's while it starts the next one.
CFLAGS = -O2 -pipe
# Whole or not at all, and once or twice: a job that is killed leaves files that are half written or have been moved already,
# and goes on from before it began.
%.o: %.c
	$(CC) $(CFLAGS) -c -o $@.new $< && { mv $@.new $@ 2> missing || test -e $@; }
program: $(objects)
	$(CC) -o $@ $^
END
make -s -j4 && ./program
rm -f missing
