// Command papers recomputes figures of the papers that need no training run, and prints the
// published figure beside the computed one with the relative difference; with -amplified, those
// with amplification by sampling; with -grid, ratios of one paper's grid. They are cited by arXiv
// number; settings that the papers leave open are the ones that give their numbers, and are named
// in the heading of each table.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"minsep/mechanism"
)

// row is one figure. A published text of "" has none; its last digit tells how precise it is.
type row struct {
	name      string
	published string
	computed  float64
	note      string
}

// table is one published table, or what of it is recomputed.
type table struct {
	heading string
	rows    func() ([]row, error)
}

func main() {
	amplified := flag.Bool("amplified", false, "print the tables with amplification by sampling, which take minutes, in place of the others")
	grid := flag.String("grid", "", "print the ratios of section 7.1 of arXiv 2602.09338; the points that this file does not have yet are computed and added, in minutes")
	flag.Parse()
	all, err := tables(), error(nil)
	switch {
	case *grid != "":
		all, err = gridTables(context.Background(), published, *grid)
	case *amplified:
		all = amplifiedTables()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
	if err := write(os.Stdout, all); err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func tables() []table {
	return append(append(tablesMultiEpoch(), tablesBanded()...), append(tablesFractional(), tablesLambda()...)...)
}

func write(w io.Writer, all []table) error {
	for _, t := range all {
		fmt.Fprintf(w, "%s\n\n", t.heading)
		rows, err := t.rows()
		if err != nil {
			return fmt.Errorf("%s: %w", t.heading, err)
		}
		out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(out, "  \tpublished\tcomputed\tdifference\t")
		for _, r := range rows {
			difference := ""
			if r.published != "" {
				difference = fmt.Sprintf("%+.2f %%", 100*(r.computed/r.value()-1))
			}
			fmt.Fprintf(out, "  %s\t%s\t%.5g\t%s\t%s\n", r.name, r.published, r.computed, difference, r.note)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

// value is the published figure as a number.
func (r row) value() float64 {
	var v float64
	fmt.Sscan(strings.TrimSuffix(r.published, "%"), &v)
	return v
}

// optimise calls an optimisation and keeps its strategy.
func optimise(s *mechanism.Strategy, _ mechanism.Convergence, err error) (*mechanism.Strategy, error) {
	return s, err
}
