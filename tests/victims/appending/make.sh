# Builds with make and gcc, whose stages hand files to each other by their names in a directory for temporary files.
mkdir -p project && cd project || exit 1
for unit in $(seq 1 12); do
    for f in $(seq 1 60); do
        echo "int f${unit}_$f(int x) { int s = $f; for (int i = 0; i < x; i++) s = s * 31 + (i ^ $unit); return s; }"
    done > "unit$unit.c"
done
cat > Makefile <<'MAKE'
objects = $(patsubst %.c,%.o,$(wildcard *.c))
%.o: %.c
	$(CC) -O2 -c -o $@.new $< && { mv $@.new $@ 2> missing || test -e $@; }
all: $(objects)
MAKE
make -s && rm -f *.o missing && echo built
