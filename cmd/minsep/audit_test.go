package main

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling/stream"
)

// sums RUN KEY WITH WITHOUT [SCALE [FROM]] trains as docs/audit.md does: canary i is example i
// of the run's batches and has coordinate i of its noise, and every second one is left out. The
// noise is multiplied by SCALE, and step t gets that of step t-FROM.
func sums(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: sums RUN KEY WITH WITHOUT [SCALE [FROM]]")
	}
	scale, shift := 1.0, 0
	if len(args) > 4 {
		v, err := strconv.ParseFloat(args[4], 64)
		ts.Check(err)
		scale = v
	}
	if len(args) > 5 {
		v, err := strconv.Atoi(args[5])
		ts.Check(err)
		shift = v
	}
	run := ts.MkAbs(args[0])
	batches, err := manifest.OpenBatches(context.Background(), run+"/batches")
	ts.Check(err)
	f, err := os.Open(run + "/noise/recipe.json")
	ts.Check(err)
	defer f.Close()
	recipe, err := noise.Read(f)
	ts.Check(err)
	root, err := stream.ReadKeyFile(ts.MkAbs(args[1]))
	ts.Check(err)
	n, d := recipe.Params.Steps, int(recipe.Params.Coordinates)
	g, err := recipe.Generator(recipe.Key(root, recipe.RunID), 0, int64(d))
	ts.Check(err)
	values := make([]float64, n*d)
	ts.Check(g.Fill64(values))
	rows := make([][]float64, d)
	for i := range rows {
		for t := range n {
			rows[i] = append(rows[i], scale*values[(t+n-shift)%n*d+i])
		}
	}
	ts.Check(batches.Each(context.Background(), func(step int, batch []int64) error {
		for _, row := range batch {
			if row%2 == 0 && row < int64(d) {
				rows[row][step] += float64(recipe.Params.ClipNorm)
			}
		}
		return nil
	}))
	for side, name := range args[2:4] {
		out, err := os.Create(ts.MkAbs(name))
		ts.Check(err)
		ts.Check(manifest.NPYHeader{DType: manifest.DFloat64, Shape: []int{d / 2, n}}.Write(out))
		var b []byte
		for i := side; i < d; i += 2 {
			for _, v := range rows[i] {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
		_, err = out.Write(b)
		ts.Check(err)
		ts.Check(out.Close())
	}
}
