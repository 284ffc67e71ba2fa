// Command scale measures the cost of bounding a graph and of forming batches of it: whole
// stages, files written, each in a process of its own on this machine, on the direct runner. It
// prints a line of JSON for each, as they are kept in points.jsonl, the source of the figures
// in docs/background/scale.md.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"minsep/pipelines"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/ondisk"
	"minsep/sampling/stream"
	"minsep/transforms/contribution"
	"minsep/transforms/progress"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "stage" {
		exit(stage(os.Args[2:]))
	}
	if err := measureAll(os.Args[1:]); err != nil {
		exit(err)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// point is the cost of one stage.
type point struct {
	Stage   string           `json:"stage"` // bound, by a Beam job, bound-in-memory, bound-through-files, or form
	Shape   string           `json:"shape"`
	Edges   int64            `json:"edges"`
	K       int              `json:"max_per_owner"`             // 0: all that there are
	Rounds  int              `json:"rounds,omitempty"`          // 0: as planned
	Held    int64            `json:"edges_in_memory,omitempty"` // 0: as by default
	Scheme  string           `json:"scheme,omitempty"`
	Wall    float64          `json:"wall_s"`
	CPU     float64          `json:"cpu_s"`
	PeakGiB float64          `json:"peak_gib"`
	Temp    int64            `json:"temporary_bytes,omitempty"` // of files that have no name, at most
	Files   int64            `json:"graph_bytes,omitempty"`
	Kept    int64            `json:"kept,omitempty"`
	Counts  map[string]int64 `json:"counts,omitempty"`
}

func measureAll(args []string) error {
	flags := flag.NewFlagSet("scale", flag.ExitOnError)
	names := flags.String("shapes", "uniform,power-law", "families of graphs")
	sizes := flags.String("edges", "1e6,1e7", "numbers of edges")
	ks := flags.String("k", "2", "examples per owner; 0 for all that there are")
	rounds := flags.Int("rounds", 0, "rounds of the bounding; 0 for as many as planned")
	memory := flags.Bool("memory", false, "bound in this process, not by a Beam job")
	held := flags.Int64("edges-in-memory", 0, "with -memory: bound a larger graph through files; 0 for minsep's own number")
	points := flags.String("fit", "", "a file of points: print the model that they give and measure nothing")
	graphFile := flags.String("graph", "", "a graph to bound in place of -shapes and -edges")
	schemes := flags.String("schemes", "", "schemes to form batches by, of the bounded graph")
	dir := flags.String("dir", "", "of the graphs and runs; empty for a temporary one")
	flags.Parse(args)
	if *points != "" {
		all, err := readPoints(*points)
		if err == nil {
			newModel(all).report(os.Stdout)
		}
		return err
	}
	if *dir == "" {
		temp, err := os.MkdirTemp("", "scale")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		*dir = temp
	}
	key := filepath.Join(*dir, "key")
	err := os.WriteFile(key, []byte("not a secret: one for measuring."), 0o600) // the same graph costs the same each time
	if err != nil {
		return err
	}
	bound := func(p point) error {
		for _, k := range strings.Split(*ks, ",") {
			if p.K, err = strconv.Atoi(k); err != nil {
				return err
			}
			p.Stage, p.Scheme, p.Rounds = boundStage, "", *rounds
			if *memory {
				p.Held = *held
				if p.Stage = boundInMemory; p.Edges > cmp.Or(p.Held, ondisk.DefaultInMemory) {
					p.Stage = boundThroughFiles
				}
			}
			if err := measure(p, *dir); err != nil {
				return err
			}
			for _, scheme := range strings.Split(*schemes, ",") {
				if scheme == "" {
					continue
				}
				p.Stage, p.Scheme, p.Rounds, p.Held = "form", scheme, 0, 0
				if err := measure(p, *dir); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if *graphFile != "" {
		return bound(point{Shape: *graphFile})
	}
	for _, name := range strings.Split(*names, ",") {
		shape, err := shapeOf(name)
		if err != nil {
			return err
		}
		for _, size := range strings.Split(*sizes, ",") {
			edges, err := strconv.ParseFloat(size, 64)
			if err != nil {
				return err
			}
			if err := shape.write(filepath.Join(*dir, graphName), int64(edges)); err != nil {
				return err
			}
			if err := bound(point{Shape: name, Edges: int64(edges)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stages of points.
const (
	boundStage        = "bound"
	boundInMemory     = "bound-in-memory"
	boundThroughFiles = "bound-through-files"
)

// graphName is the name of the graph that was made last.
const graphName = "graph.parquet"

// measure runs a stage in a process of its own and prints its cost.
func measure(p point, dir string) error {
	arg, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c := exec.Command(os.Args[0], "stage", dir, string(arg))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	begin := time.Now()
	if err := c.Start(); err != nil {
		return err
	}
	ended, temp := make(chan struct{}), make(chan int64)
	go func() { temp <- mostTemporary(c.Process.Pid, ended) }()
	err = c.Wait()
	wall := time.Since(begin).Seconds()
	close(ended)
	most := <-temp
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &p)
	}
	p.Wall, p.Temp = wall, most
	u := c.ProcessState.SysUsage().(*syscall.Rusage)
	p.CPU = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	p.PeakGiB = float64(u.Maxrss) / (1 << 20) // Linux counts in KiB
	if err != nil {
		fmt.Fprintf(os.Stderr, "scale: %s after %.0f s, %.2f GiB: %v\n", arg, p.Wall, p.PeakGiB, err)
		return nil
	}
	line, err := json.Marshal(p)
	fmt.Println(string(line))
	return err
}

// mostTemporary looks ten times a second how much disk the files without a name take that a process
// has open, where the system shows them, as Linux does. At the end it returns the most.
func mostTemporary(pid int, ended <-chan struct{}) (most int64) {
	for {
		select {
		case <-ended:
			return most
		case <-time.After(100 * time.Millisecond):
		}
		sum := int64(0)
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, name := range open {
			var stat syscall.Stat_t
			if syscall.Stat(name, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFREG && stat.Nlink == 0 {
				sum += stat.Blocks * 512
			}
		}
		most = max(most, sum)
	}
}

// stage runs a stage in this process and prints its counters.
func stage(args []string) error {
	if len(args) != 2 {
		return errors.New("stage: a folder and a point")
	}
	var p point
	if err := json.Unmarshal([]byte(args[1]), &p); err != nil {
		return err
	}
	dir := args[0]
	o := pipelines.Options{Out: filepath.Join(dir, "run"), KeyFile: filepath.Join(dir, "key"), RunID: stream.RunID{1}, Overwrite: true}
	counts := map[string]int64{}
	if p.Stage != "form" {
		if err := os.RemoveAll(o.Out); err != nil {
			return err
		}
		graph := p.Shape
		if _, err := shapeOf(p.Shape); err == nil {
			graph = filepath.Join(dir, graphName)
		}
		k := p.K
		if k == 0 {
			k = 1<<31 - 1
		}
		b := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: k}, Rounds: p.Rounds, EdgesInMemory: p.Held}
		if p.Stage == boundStage {
			size, err := os.Stat(graph)
			if err != nil {
				return err
			}
			b.Buckets = contribution.Config{Bound: b.Bound, Edges: size.Size() / 4}.Sizes().Buckets // as many as are planned: to ask for them asks for a job
		}
		r, err := b.Run(context.Background(), o)
		if err != nil {
			return err
		}
		p.Edges = r.Summary.Edges
		p.Files, p.Kept = r.Input.Bytes, r.Summary.Kept
	} else {
		scheme := sampling.Params{Scheme: p.Scheme, Steps: 1000, MinSep: 16, BatchSize: 128}
		if _, err := (pipelines.Form{Params: scheme, Bounded: o.Out}).Run(context.Background(), o); err != nil {
			return err
		}
	}
	for _, c := range append(progress.Counts(), progress.Details()...) {
		counts[c.Name] = c.Total
	}
	p.Counts, p.Shape = counts, filepath.Base(p.Shape)
	return json.NewEncoder(os.Stdout).Encode(p)
}
