// Command scale measures the cost of bounding a graph and of forming batches of it: whole
// stages, files written, each in a process of its own on this machine, on the direct runner. It
// prints a line of JSON for each, as they are kept in points.jsonl, the source of the figures
// in docs/background/scale.md.
package main

import (
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
	K       int              `json:"max_per_owner"`    // 0: all that there are
	Rounds  int              `json:"rounds,omitempty"` // 0: as planned
	Scheme  string           `json:"scheme,omitempty"`
	Wall    float64          `json:"wall_s"`
	CPU     float64          `json:"cpu_s"`
	PeakGiB float64          `json:"peak_gib"`
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
				if p.Stage = boundInMemory; p.Edges > ondisk.DefaultInMemory {
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
				p.Stage, p.Scheme, p.Rounds = "form", scheme, 0
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
	c.Stderr = os.Stderr
	begin := time.Now()
	out, err := c.Output()
	wall := time.Since(begin).Seconds()
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	p.Wall = wall
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
		b := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: k}, Rounds: p.Rounds}
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
