// Command papers recomputes figures of the papers that need no training run, and prints the
// published figure beside the computed one with the relative difference; with -amplified, the
// figures with amplification by sampling; with -grid, ratios of one paper's grid. They are
// cited by arXiv number; settings that the papers leave open are the ones that give their
// numbers, and are named in the heading of each table, as are figures that cannot be
// recomputed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"minsep/mechanism"
)

// row is one figure. A published text of "" has none; its last digit tells how precise it is. It
// may begin with "<" or ">", a bound, or "≈", as said in words.
type row struct {
	name      string
	published string
	computed  float64
	note      string
	stdErr    float64 // of computed, where it is an estimate
	open      bool    // a difference is expected, and explained or named in the note
}

// table is one published table, or its recomputed part.
type table struct {
	heading string
	rows    func() ([]row, error)
}

func main() {
	amplified := flag.String("amplified", "", "print the tables with amplification by sampling; the figures that this file does not have yet are computed and added, in an hour or more: stop it at any time, it prints what is known")
	grid := flag.String("grid", "", "print the ratios of section 7.1 of arXiv 2602.09338; the points that this file does not have yet are computed and added, in minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all, err := tables(), error(nil)
	switch {
	case *grid != "":
		all, err = gridTables(ctx, published, *grid)
	case *amplified != "":
		all, err = amplifiedTables(ctx, *amplified)
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
	return append(append(tablesMultiEpoch(), append(tablesBanded(), tablesBandMF()...)...), append(tablesFractional(), tablesLambda()...)...)
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
			computed := fmt.Sprintf("%.5g", r.computed)
			if r.stdErr > 0 {
				computed += fmt.Sprintf(" ± %.2g", r.stdErr)
			}
			if r.computed == 0 {
				computed = "-"
			}
			fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\n", r.name, r.published, computed, r.difference(), r.note)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if text := summary(rows); text != "" {
			fmt.Fprintf(w, "\n  %s\n", text)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// difference says how the computed figure compares with the published one.
func (r row) difference() string {
	switch {
	case r.published == "" || r.computed == 0:
		return ""
	case r.bound():
		if r.holds() {
			return "holds"
		}
		return "does not hold"
	}
	return fmt.Sprintf("%+.2f %%", 100*(r.computed/r.value()-1))
}

// bound says that the published figure is one.
func (r row) bound() bool {
	return strings.HasPrefix(r.published, "<") || strings.HasPrefix(r.published, ">")
}

// holds says that the computed figure keeps to the published bound.
func (r row) holds() bool {
	if strings.HasPrefix(r.published, ">") {
		return r.computed > r.value()
	}
	return r.computed < r.value()
}

// value is the published figure as a number.
func (r row) value() float64 {
	var v float64
	fmt.Sscan(strings.TrimLeft(r.published, "<>≈"), &v)
	return v
}

// far says that the figures differ by more than three standard errors of the computed one and half
// a unit of the published one's last digit.
func (r row) far() bool {
	return r.stdErr > 0 && math.Abs(r.computed-r.value()) > 3*r.stdErr+halfUnit(r.published)
}

// summary describes the ratios of three figures or more, printed as numbers; figures with an
// expected difference do not count.
func summary(rows []row) string {
	var ratios []float64
	var far []string
	square, mean := 0., 0.
	for _, r := range rows {
		if r.published == "" || r.computed == 0 || r.open || r.bound() || strings.HasPrefix(r.published, "≈") {
			continue
		}
		ratios = append(ratios, r.computed/r.value())
		square += (r.stdErr / r.value()) * (r.stdErr / r.value())
		mean += r.computed / r.value()
		if r.far() {
			far = append(far, r.name)
		}
	}
	count := float64(len(ratios))
	if count < 3 {
		return ""
	}
	slices.Sort(ratios)
	mean /= count
	middle := (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
	text := fmt.Sprintf("computed over published: median %.4f, %.4f to %.4f, of %d figures", middle, ratios[0], ratios[len(ratios)-1], len(ratios))
	if square == 0 {
		return text
	}
	variance := 0.
	for _, r := range ratios {
		variance += (r - mean) * (r - mean) / (count - 1)
	}
	text += fmt.Sprintf("; they scatter by %.2g %%, our standard errors are %.2g %%", 100*math.Sqrt(variance), 100*math.Sqrt(square/count))
	if far != nil {
		text += "\n  further than three of our standard errors: " + strings.Join(far, ", ")
	}
	return text
}

// halfUnit is half a unit of the last printed digit.
func halfUnit(printed string) float64 {
	mantissa, exponent, _ := strings.Cut(printed, "e")
	power := 0.
	if exponent != "" {
		power = float64(exponent[0] - '0')
	}
	if _, decimals, found := strings.Cut(mantissa, "."); found {
		power -= float64(len(decimals))
	}
	return .5 * math.Pow(10, power)
}

// made makes the best strategy of a kind and a size for a problem.
func made(p mechanism.Problem, kind string, size int) (*mechanism.Strategy, error) {
	return p.Make(context.Background(), kind, size)
}

// leastLoss returns the loss of the strategy that [made] makes.
func leastLoss(p mechanism.Problem, kind string, size int) (float64, error) {
	s, err := made(p, kind, size)
	if err != nil {
		return 0, err
	}
	return p.Loss(s)
}
