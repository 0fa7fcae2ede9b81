// Goroutines that never yield by themselves, channels, garbage, and a nil pointer that is recovered.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
)

func sieve(limit int) int {
	composite := make([]bool, limit)
	found := 0
	for i := 2; i < limit; i++ {
		if composite[i] {
			continue
		}
		found++
		for j := 2 * i; j < limit; j += i {
			composite[j] = true
		}
	}
	return found
}

func recovered() (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	var nothing *struct{ field int }
	return fmt.Sprint(nothing.field)
}

func main() {
	runtime.GOMAXPROCS(4)
	results := make(chan int)
	for i := 0; i < 16; i++ {
		go func(i int) { results <- sieve(20000 + i) }(i)
	}
	found := []int{}
	for i := 0; i < 16; i++ {
		found = append(found, <-results)
	}
	sort.Ints(found)
	words := map[string]int{}
	for i := 0; i < 20000; i++ {
		words[fmt.Sprintf("w%d", i%977)] += i
	}
	runtime.GC()
	fmt.Println(found[0], found[15], words["w7"], recovered())
	os.Exit(6)
}
