// Goroutines that pass messages, sleep on timers, allocate and verify, while the collector runs and the runtime sends
// itself signals. Prints one checksum.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func check(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "victim: not so:", what)
		os.Exit(9)
	}
}

func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

type node struct {
	left, right *node
	value       uint64
}

func tree(depth int, random *uint64) *node {
	n := &node{value: next(random)}
	if depth > 0 {
		n.left, n.right = tree(depth-1, random), tree(depth-1, random)
	}
	return n
}

func (n *node) sum() uint64 {
	if n == nil {
		return 0
	}
	return n.value ^ (n.left.sum() * 3) ^ (n.right.sum() * 5)
}

// stage adds its mark to whatever comes by.
func stage(number uint64, from <-chan uint64, to chan<- uint64) {
	for value := range from {
		to <- value*31 + number
	}
	close(to)
}

func pipeline(rounds int) uint64 {
	first := make(chan uint64)
	last := first
	for i := 0; i < 8; i++ {
		next := make(chan uint64, i)
		go stage(uint64(i), last, next)
		last = next
	}
	go func() {
		for i := 0; i < rounds; i++ {
			first <- uint64(i)
		}
		close(first)
	}()
	var sum uint64
	for value := range last {
		sum = sum*1000003 ^ value
	}
	return sum
}

// churn keeps a map and a tree alive that it verifies before it throws them away.
func churn(seed uint64, rounds int) uint64 {
	random, sum := seed, uint64(0)
	kept := map[uint64][]byte{}
	for i := 0; i < rounds; i++ {
		before := random
		grown := tree(8, &random)
		again := before
		check(tree(8, &again).sum() == grown.sum(), "two trees of one seed are equal")
		sum = sum*31 + grown.sum()
		key := next(&random) % 64
		if old, held := kept[key]; held {
			check(old[len(old)-1] == byte(key), "a kept slice kept its bytes")
		}
		block := make([]byte, 1+next(&random)%4000)
		for k := range block {
			block[k] = byte(key)
		}
		kept[key] = block
		digest := sha256.Sum256(block)
		sum ^= binary.LittleEndian.Uint64(digest[:])
	}
	return sum
}

// sleeper counts ticks and short sleeps until it has had enough of both.
func sleeper(rounds int) uint64 {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	var ticks uint64
	for i := 0; i < rounds; i++ {
		<-ticker.C
		ticks++
		select {
		case <-time.After(time.Millisecond):
		case <-make(chan int):
			check(false, "a channel without a writer delivered")
		}
	}
	return ticks
}

func main() {
	rounds := 600
	if times, err := strconv.Atoi(os.Getenv("VICTIM_TIMES")); err == nil {
		rounds *= times
	}
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	results := make([]uint64, 6)
	var all sync.WaitGroup
	start := func(slot int, work func() uint64) {
		all.Add(1)
		go func() {
			defer all.Done()
			results[slot] = work()
		}()
	}
	for i := 0; i < 4; i++ {
		start(i, func() uint64 { return churn(uint64(i), rounds*2) })
	}
	start(4, func() uint64 { return pipeline(rounds * 100) })
	start(5, func() uint64 { return sleeper(rounds) })
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				time.Sleep(5 * time.Millisecond)
			}
		}
	}()
	all.Wait()
	close(stop)
	digest := sha256.Sum256([]byte(fmt.Sprint(results)))
	fmt.Printf("routines: %x\n", digest[:8])
}
