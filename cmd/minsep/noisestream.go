package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"minsep/internal/param"
	"minsep/internal/pipelines"
)

// noiseStream holds the flags of a stream of noise.
type noiseStream struct {
	pipelines.NoiseStream
	on    bool
	shard string // i/N
}

// streamFlags are the flags of noise that --stream accepts, besides the flags of every command.
var streamFlags = []string{
	"stream",
	"from-step",
	"shard",
	"checkpoint",
	"checkpoint-steps",
	"dtype",
	"key",
	"out",
	"work-dir",
}

func (s *noiseStream) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&s.on, "stream", false, "write the noise of the recipe in the run directory to standard output, and no files")
	f.StringVar(&s.shard, "shard", "0/1", "with --stream: i/N, the i-th of N ranges of coordinates, counted from 0")
	s.CheckpointSteps = 100
	addFlags(f, s)
}

// unused refuses the flags of a stream if --stream is not given.
func (s *noiseStream) unused(cmd *cobra.Command) error {
	c := param.Checker{}
	for _, name := range []string{"from-step", "shard", "checkpoint", "checkpoint-steps"} {
		f := cmd.Flags().Lookup(name)
		c.Require(!f.Changed, name, f.Value, "is for --stream only")
	}
	return c.Err()
}

// others refuses the flags that decide the noise: a stream takes them from the recipe.
func (s *noiseStream) others(cmd *cobra.Command) error {
	c := param.Checker{}
	// The list has the flags that are allowed, so that a new flag of the noise is refused until
	// somebody thought of the stream.
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		c.Require(
			!f.Changed || slices.Contains(streamFlags, f.Name),
			f.Name,
			f.Value,
			"cannot be used with --stream: the recipe in the run directory decides the noise",
		)
	})
	return c.Err()
}

// streamNoise writes the recipe's noise to standard output, which must not be a terminal.
func streamNoise(a *app, cmd *cobra.Command, s noiseStream, dtype string) error {
	if err := s.others(cmd); err != nil {
		return err
	}
	if !cmd.Flags().Changed("dtype") { // then the recipe decides
		dtype = ""
	}
	n := s.NoiseStream
	n.DType = dtype
	i, count, _ := strings.Cut(s.shard, "/")
	var errShard, errShards error
	n.Shard, errShard = strconv.Atoi(i)
	n.Shards, errShards = strconv.Atoi(count)
	if errShard != nil || errShards != nil {
		return param.Fault("shard", s.shard, "must be i/N, such as 0/8")
	}
	if out, ok := a.bytes.(*checkedWriter); ok {
		if f, ok := out.Writer.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return param.Fault("stream", nil,
				"writes secret bytes: send standard output to a program, not to a terminal")
		}
	}
	stop := a.watch("noise")
	_, err := n.Run(cmd.Context(), a.options(), cmd.InOrStdin(), a.bytes)
	stop()
	return err
}
