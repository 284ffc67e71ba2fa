package materialize_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"minsep/sampling/ownergraph"
	"minsep/transforms/materialize"
)

// byName writes the examples of a problem as files of their own, in two folders, and makes the rows
// that are then to be joined.
func byName(t *testing.T, p *problem, rng *rand.Rand) (folders []string) {
	p.rows = map[int64]map[string]any{}
	for i := range 2 {
		folders = append(folders, filepath.Join(p.dir, fmt.Sprintf("files-%d", i)))
		must(t, os.Mkdir(folders[i], 0o700))
	}
	for _, row := range rng.Perm(p.n + 3) {
		name := stringID(row)
		if p.ids == ownergraph.Int64 {
			name = fmt.Sprint(p.intID(row))
		}
		name += []string{"", ".txt", ".jpg"}[rng.IntN(3)]
		content := []byte(strings.Repeat("x", rng.IntN(50)*rng.IntN(50)) + name)
		must(t, os.WriteFile(filepath.Join(folders[rng.IntN(2)], name), content, 0o600))
		if row < p.n {
			p.rows[int64(row)] = map[string]any{"file": name, "bytes": content}
		}
	}
	must(t, os.WriteFile(filepath.Join(folders[0], ".hidden"), nil, 0o600))
	return folders
}

// plain makes every kind of text and bytes a string, to compare what readers return.
func plain(rows []map[string]any) []map[string]any {
	for _, row := range withoutNulls(rows) {
		for k, v := range row {
			if b, is := v.([]byte); is {
				row[k] = string(b)
			}
		}
	}
	return rows
}

// TestFilesByName compares with a join in memory, on two runners and with any number of shards.
func TestFilesByName(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := newProblem(t, rng)
		p.files, p.byName = byName(t, p, rng), true
		h := how{runner: "direct", shards: 1 + rng.IntN(len(p.steps)), after: int64(rng.IntN(2))}
		if seed%8 == 0 {
			h.runner = "prism"
		}
		dir, files, err := p.write(t, h)
		must(t, err)
		if diff := gocmp.Diff(plain(p.joined(t)), plain(entries(t, dir, files))); diff != "" {
			t.Fatalf("seed %d, %+v (-in memory +join):\n%s", seed, h, diff)
		}
	}
}

// TestLargeFileByName writes a row once for each of its entries, and takes a small multiple of its
// size in memory, however many entries there are.
func TestLargeFileByName(t *testing.T) {
	const size, most = 24 << 20, 12 // bytes, and how many times as much memory there may be
	p := &problem{dir: t.TempDir(), n: 2, steps: make([][][]int64, 6), byName: true, rows: map[int64]map[string]any{}}
	for step := range p.steps {
		p.steps[step] = [][]int64{{0}, {1}}
	}
	p.writeBatches(t, 1, 1, false)
	dir := filepath.Join(p.dir, "files")
	must(t, os.Mkdir(dir, 0o700))
	source := rand.NewChaCha8([32]byte{1})
	for id := range p.n {
		content := make([]byte, size)
		source.Read(content)
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.bin", id)), content, 0o600))
	}
	p.files = []string{dir}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, files, err := p.write(t, how{runner: "direct", shards: 1})
	must(t, err)
	runtime.ReadMemStats(&after)
	if more := int64(after.HeapSys) - int64(before.HeapSys); more > most*size {
		t.Errorf("the heap took %d bytes more, %.1f times a file", more, float64(more)/size)
	}
	if entries := int64(p.n * len(p.steps)); files[0].Bytes > entries*size+1<<20 {
		t.Errorf("%d entries of %d bytes take %d", entries, size, files[0].Bytes)
	}
}

// TestManyFilesByName has more files than a task takes.
func TestManyFilesByName(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	p := &problem{dir: t.TempDir(), n: 3000, steps: make([][][]int64, 3)}
	for step := range p.steps {
		for row := step; row < p.n; row += 50 {
			p.steps[step] = append(p.steps[step], []int64{int64(row)})
		}
	}
	p.writeBatches(t, 2, 1, false)
	p.files, p.byName = byName(t, p, rng), true
	dir, files, err := p.write(t, how{runner: "direct", shards: 2})
	must(t, err)
	if diff := gocmp.Diff(plain(p.joined(t)), plain(entries(t, dir, files))); diff != "" {
		t.Fatalf("(-in memory +join):\n%s", diff)
	}
}

// TestFilesByNameAreRefused: an id that is missing, one in two files, names that are none, folders
// in folders, and files that were changed.
func TestFilesByNameAreRefused(t *testing.T) {
	for words, spoil := range map[string]func(t *testing.T, dir string, p *problem){
		"2": func(t *testing.T, dir string, p *problem) { must(t, os.Remove(filepath.Join(dir, "2.txt"))) },
		"must be the id of an example": func(t *testing.T, dir string, p *problem) {
			must(t, os.WriteFile(filepath.Join(dir, "x.txt"), nil, 0o600))
		},
		"03.txt: its name must be the id": func(t *testing.T, dir string, p *problem) {
			must(t, os.Rename(filepath.Join(dir, "3.txt"), filepath.Join(dir, "03.txt")))
		},
		"is a folder":               func(t *testing.T, dir string, p *problem) { must(t, os.Mkdir(filepath.Join(dir, "more"), 0o700)) },
		"must be a folder of files": func(t *testing.T, dir string, p *problem) { must(t, os.RemoveAll(dir)) },
		"was changed since the command": func(t *testing.T, dir string, p *problem) {
			p.change = func() { must(t, os.WriteFile(filepath.Join(dir, "3.txt"), []byte("longer than before"), 0o600)) }
		},
		"more than once": func(t *testing.T, dir string, p *problem) {
			must(t, os.WriteFile(filepath.Join(dir, "3.png"), nil, 0o600))
		},
	} {
		p := &problem{dir: t.TempDir(), n: 10, steps: [][][]int64{{{3}}}, byName: true, rows: map[int64]map[string]any{}}
		p.writeBatches(t, 1, 1, false)
		dir := filepath.Join(p.dir, "files")
		must(t, os.Mkdir(dir, 0o700))
		for id := range 12 {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.txt", id)), []byte{byte(id)}, 0o600))
		}
		p.files = []string{dir}
		if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err != nil {
			t.Fatal(err)
		}
		spoil(t, dir, p)
		if _, _, err := p.write(t, how{runner: "direct", shards: 1}); err == nil || !strings.Contains(err.Error(), materialize.FaultPrefix) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
