// Frozen measures what must not get worse: the noise multiplier and the CPU time of the
// certificates that users have, and the CPU time of whole commands. Programs are run in turn, so
// that their ratios hold on a busy machine:
//
//	go run ./integration/frozen before=PATH after=PATH
//
// It logs each case as it ends, and prints a table with the median of each program's rounds, and
// the ratio of the last program to the first.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A program is a binary of the command, and the folder in which it works.
type program struct {
	name, path, folder string
}

// A measurement is what one run of a command gave. A noise multiplier of 0 says that it has none.
type measurement struct {
	noiseMultiplier float64
	cpu             time.Duration
	peak            int64 // KiB
	err             error
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 5, "runs of each case, of which the median is printed")
	only := flag.String("only", "", "regular expression of the cases to measure")
	graph := flag.String("graph", "integration/testdata/gene2pubmed.tsv.gz", "file of edges for bound")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	var programs []program
	for _, arg := range flag.Args() {
		name, path, ok := strings.Cut(arg, "=")
		if !ok {
			log.Fatalf("%s: must be NAME=PATH of a program", arg)
		}
		p, err := newProgram(name, path, *graph)
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(p.folder)
		programs = append(programs, p)
	}
	if len(programs) == 0 {
		log.Fatal("no program is given: give NAME=PATH")
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	header := "case"
	for _, p := range programs {
		header += "\tσ " + p.name + "\tCPU-s " + p.name + "\tMiB " + p.name
	}
	fmt.Fprintln(table, header+"\tσ ratio\tCPU ratio")
	for _, w := range works {
		if w.name == "" || pattern.MatchString(w.name) || w.name == "bound, 1.8e6 edges" && *only == "" {
			row(table, programs, w.name, strings.Fields(w.flags), *rounds)
		}
	}
	for _, c := range claims() {
		if pattern.MatchString(c.name) {
			flags := append([]string{"account"}, strings.Fields(c.flags)...)
			flags = append(flags, "--samples", strconv.Itoa(c.samples), "--out", "claim")
			row(table, programs, c.name, flags, *rounds)
		}
	}
	if err := table.Flush(); err != nil {
		log.Fatal(err)
	}
}

// newProgram makes the folder of a program, with the graph in it.
func newProgram(name, path, graph string) (program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return program{}, err
	}
	if graph, err = filepath.Abs(graph); err != nil {
		return program{}, err
	}
	folder, err := os.MkdirTemp("", "frozen")
	if err != nil {
		return program{}, err
	}
	return program{name, path, folder}, os.Symlink(graph, filepath.Join(folder, "graph.tsv.gz"))
}

// row measures one command with every program in turn and prints its line; a command without a
// name only prepares what others read, and is run once.
func row(table *tabwriter.Writer, programs []program, name string, args []string, rounds int) {
	if name == "" {
		rounds = 1
	}
	all := make([][]measurement, len(programs))
	for range rounds {
		for i, p := range programs {
			all[i] = append(all[i], p.run(args))
		}
	}
	if name == "" {
		return
	}
	line := name
	var first, last measurement
	for i := range programs {
		m := median(all[i])
		if i == 0 {
			first = m
		}
		last = m
		if m.err != nil {
			line += "\t" + m.err.Error() + "\t\t"
			continue
		}
		line += fmt.Sprintf("\t%s\t%.2f\t%d", number(m.noiseMultiplier), m.cpu.Seconds(), m.peak/1024)
	}
	if first.err == nil && last.err == nil {
		line += fmt.Sprintf("\t%s\t%.2f", number(last.noiseMultiplier/first.noiseMultiplier), last.cpu.Seconds()/first.cpu.Seconds())
	}
	fmt.Fprintln(table, line)
	log.Print(strings.ReplaceAll(line, "\t", "  "))
}

// run runs one command in the program's folder. What it writes with --out is removed before.
func (p program) run(args []string) measurement {
	if i := slices.Index(args, "--out"); i >= 0 {
		if err := os.RemoveAll(filepath.Join(p.folder, args[i+1])); err != nil {
			return measurement{err: err}
		}
	}
	c := exec.Command(p.path, append(args, "--json", "--quiet")...)
	c.Dir = p.folder
	out, err := c.Output()
	m := measurement{err: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		m.err = fmt.Errorf("exit %d", exit.ExitCode())
	}
	if c.ProcessState != nil {
		m.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		m.peak = peakOf(c.ProcessState)
	}
	var result struct {
		Certificate struct {
			NoiseMultiplier float64 `json:"noise_multiplier"`
		} `json:"certificate"`
	}
	if err == nil && args[0] == "account" {
		if m.err = json.Unmarshal(out, &result); m.err == nil {
			m.noiseMultiplier = result.Certificate.NoiseMultiplier
		}
	}
	return m
}

// median returns the median of each figure by itself, or the first error.
func median(all []measurement) measurement {
	var m measurement
	var cpu, peak, sigma []float64
	for _, one := range all {
		if one.err != nil {
			return one
		}
		cpu = append(cpu, one.cpu.Seconds())
		peak = append(peak, float64(one.peak))
		sigma = append(sigma, one.noiseMultiplier)
	}
	for _, values := range [][]float64{cpu, peak, sigma} {
		slices.Sort(values)
	}
	middle := len(all) / 2
	m.cpu = time.Duration(cpu[middle] * float64(time.Second))
	m.peak = int64(peak[middle])
	m.noiseMultiplier = sigma[middle]
	return m
}

// number is a figure with five digits, or a dash for none.
func number(x float64) string {
	if !(x > 0) {
		return "–"
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}
