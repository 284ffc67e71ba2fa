package main

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"minsep/internal/report"
	"minsep/mechanism"
	"minsep/sampling"
)

// planTable explains the columns of plan's table.
const planTable = `Columns of the table:
  =1            tied: estimates do not tell it from the first row
  k_u           most examples of an owner that are kept (--max-per-owner)
  batch         expected batch size
  σ             noise multiplier; ≥ may be too small
  ±             standard error of σ; none where σ is proven
  rmse/batch    noise in the models of the training over the batch size:
                less is better, and rows rank by it; ! is more than DP-SGD
  latese/batch  the same over the second half of the steps, with a schedule
  at N          the same for a model that forgets a step after N steps
  step          noise of a single step over DP-SGD's: above 1 is usual, as
                later steps take a part back; Adam prefers less; - where
                DP-SGD needs no noise
  each          times that an example takes part, on average
  kept          part of the examples that take part
  state         numbers of 8 bytes that the noise keeps for each parameter
  certificate   processor time of a certificate; ≥ leaves out H(Q,P), one of
                its two directions`

// helpPages ends every explanation with places to read on.
const helpPages = "more: minsep --help lists commands and topics; docs/glossary.md, docs/choosing.md"

// explained returns the explanations of a word or phrase: entries of the glossary, schemes, kinds
// of strategies, flags and columns. It returns nil for an unknown word.
func explained(root *cobra.Command, word string) (lines []string) {
	word = strings.ToLower(strings.TrimLeft(word, "-"))
	if word == "" {
		return nil
	}
	for _, g := range report.Glossary {
		if isTerm(strings.ToLower(g.Name), word) {
			lines = append(lines, g.Name+": "+g.Value)
		}
	}
	for _, name := range sampling.KindNames() {
		if name == word {
			lines = append(
				lines,
				"scheme "+name+": docs/schemes.md; in a plan scheme.scheme, in commands --scheme "+name,
			)
		}
	}
	for _, f := range mechanism.Families() {
		if f.Kind == word {
			lines = append(lines, "strategy "+f.Kind+": "+f.Help+"; docs/strategies.md")
		}
	}
	for line := range strings.SplitSeq(planTable, "\n") {
		// A column's first line says enough here; minsep help table has the rest.
		if column, says, _ := strings.Cut(strings.TrimSpace(line), "  "); column == word {
			lines = append(
				lines,
				"column "+column+" of minsep plan: "+strings.TrimSpace(says)+" (minsep help table)",
			)
		}
	}
	// Last but for the flags: a word that is a term of its own is explained as the term first.
	if text := otherWords[word]; text != "" {
		lines = append(lines, text)
	}
	return append(lines, flagsNamed(root, word)...)
}

// otherWords explains words that people ask for though they are neither terms nor names of minsep.
var otherWords = func() map[string]string {
	words := map[string]string{
		"adam":   "Adam: plan and strategy --optimizer adam find noise that suits it; docs/when-things-change.md",
		"adamw":  "AdamW: --optimizer adam with --weight-decay; docs/when-things-change.md",
		"resume": "minsep run, repeated, goes on where it was stopped; docs/run.md",
		"sweep":  "several trainings: minsep run --again NEW makes the next one, and minsep compose what they promise together; docs/run.md",
	}
	for text, list := range map[string][]string{
		"input files: CSV, TSV, NDJSON or Parquet, with the columns example_id and owner_id, or others by --example-column and --owner-column; --delimiter and --format where the name does not tell; docs/input.md": {"csv", "tsv", "parquet", "ndjson", "json", "gzip", "input", "delimiter", "columns"},
		"platforms: Linux and macOS, on x86-64 and arm64; Windows by WSL; README.md, docs/deploy.md":                                                                                                                 {"mac", "macos", "darwin", "linux", "windows", "arm64", "platform", "platforms", "docker", "kubernetes", "install"},
		"trainers: the Python package reads batches and noise in JAX, PyTorch and NumPy; docs/python.md":                                                                                                             {"python", "jax", "pytorch", "torch", "numpy", "optax", "opacus", "flax", "train", "training", "trainer"},
	} {
		for _, word := range list {
			words[word] = text
		}
	}
	return words
}()

// isTerm reports whether word is the term, or the beginning of one of the term's words.
func isTerm(term, word string) bool {
	parts := strings.FieldsFunc(term, func(r rune) bool { return strings.ContainsRune(" (),/-", r) })
	return slices.Contains(strings.Split(term, ", "), word) || strings.HasPrefix(term, word+" ") ||
		slices.ContainsFunc(parts, func(part string) bool {
			return part == word || len(word) > 3 && strings.HasPrefix(part, word)
		})
}

// flagsNamed describes the flags called name, each meaning once, with the commands that have it.
func flagsNamed(root *cobra.Command, name string) (lines []string) {
	commands := map[string][]string{}
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != name || f.Hidden || c.Hidden {
				return
			}
			line := strings.TrimSpace("--"+f.Name+" "+valueName(f)) + ": " + strings.ReplaceAll(f.Usage, "`", "")
			if commands[line] == nil {
				lines = append(lines, line)
			}
			commands[line] = append(commands[line], c.Name())
		})
	}
	for i, line := range lines {
		lines[i] = line + " (" + strings.Join(commands[line], ", ") + ")"
	}
	return lines
}

// explain prints the explanation of a word, wrapped to the screen.
func explain(a *app, lines []string) {
	io.WriteString(
		a.stdout,
		reflow(strings.Join(append(lines, helpPages), "\n\n"), cmp.Or(a.screen.width, helpWidth))+"\n",
	)
}

// askedWords returns the words after --help on a command line.
func askedWords(args []string) string {
	i := slices.IndexFunc(args, func(arg string) bool { return arg == "--help" || arg == "-h" })
	if i < 0 {
		return ""
	}
	return strings.Join(args[i+1:], " ")
}
