package formation

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/packed"
	"minsep/internal/stream"
)

// TestHotOwner excludes among the coins of an owner with 60,000 examples, which neither the sorter
// nor the spool hold in memory, and of one with a few, and compares with the definition.
func TestHotOwner(t *testing.T) {
	const steps, minSep, hot = 300, 5, 60_000
	rng := rand.New(rand.NewPCG(3, 4))
	var owners [2]stream.Address
	owners[1][0] = 200
	p := packed.NewPacker(1)
	bucket := packed.Sorter{Limit: 100_000, Dir: t.TempDir()}
	defer bucket.Close()
	add := func(_ uint32, chunk []byte) {
		must.Do(t, bucket.Add(chunk))
	}
	coins := map[event]int{} // and their owner
	taken := [2][]bool{make([]bool, steps+minSep), make([]bool, steps+minSep)}
	for row := range int64(hot + 20) {
		owner := 0
		if row >= hot {
			owner = 1
		}
		record := append([]byte(nil), owners[owner][:]...)
		record = binary.BigEndian.AppendUint64(record, uint64(row))
		last := 1 - minSep
		for step := 1 - minSep; step < steps; step++ {
			if rng.IntN(100) < 2 && (owner == 1 || step%7 < 2 || step > 200) {
				record = binary.AppendUvarint(record, uint64(step-last))
				last = step
				coins[event{row, int32(step)}] = owner
				taken[owner][step+minSep] = true
			}
		}
		p.Add(0, record, add)
	}
	p.Flush(add)
	if !bucket.Spilled() {
		t.Fatal("the bucket is in memory")
	}
	var want []event
	for c, owner := range coins {
		if c.step >= 0 && slices.Contains(taken[owner][int(c.step)+1:int(c.step)+minSep], true) {
			want = append(want, c)
		}
	}
	e := &excluder{minSep: minSep, out: newEventPacker(newShards(steps, 3, 1, 1), blocked), coins: packed.Spool{Limit: 50_000, Dir: t.TempDir()}}
	var got []event
	chunks := 0
	err := e.exclude(&bucket, func(cell uint32, chunk []byte) {
		chunks++
		first := e.out.start[cell]
		shard := &batches{starts: make([]int64, steps+1)}
		must.Do(t, shard.eachEvent(chunk, func(row int64, step int) { got = append(got, event{row, first + int32(step)}) }))
	})
	if err != nil || e.coins.Close() != nil {
		t.Fatal(err)
	}
	byRow := func(a, b event) int {
		if a.row != b.row {
			return int(a.row - b.row)
		}
		return int(a.step - b.step)
	}
	slices.SortFunc(want, byRow)
	slices.SortFunc(got, byRow)
	if !slices.Equal(got, want) {
		t.Errorf("%d coins are blocked, want %d: %s", len(got), len(want), cmp.Diff(len(got), len(want)))
	}
	if len(want) == 0 || len(want) == len(coins) || chunks < 4 {
		t.Errorf("%d of %d coins blocked in %d chunks: the test says nothing", len(want), len(coins), chunks)
	}
	if left, _ := os.ReadDir(bucket.Dir); len(left) > 0 {
		t.Errorf("%d temporary files have names", len(left))
	}
}

// event is a coin of a row.
type event struct {
	row  int64
	step int32
}
