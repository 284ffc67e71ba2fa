package pipelines

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// openEarlier returns the run of the directory that --again names, of which a new one in the directory
// out takes over what still holds: the table, the strategy and the certificate. Batches and noise serve
// one training, and are made anew.
func openEarlier(ctx context.Context, dir, out string, root stream.Root) (run manifest.Run, err error) {
	refuse := func(rule string) (manifest.Run, error) {
		return run, &param.Error{Param: "out", Value: dir, Rule: rule}
	}
	if dir == "" {
		return refuse("must name the run directory from which --again NEW takes over, and NEW the new one")
	}
	if store.Resolved(dir) == store.Resolved(out) {
		return run, param.Fault("again", out, "must be another directory than the one that is there, %s: nothing is overwritten", dir)
	}
	if err := refuseStrangers(ctx, dir); err != nil {
		return run, err
	}
	run, err = manifest.ReadRun(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && run.Plan == nil:
		return refuse("has no run of a plan to take over from: leave --again out, and name the new directory by --out")
	case err != nil:
		return run, stages.Unusable(dir, err)
	// Tables and certificates tell nothing of the key, but for this commitment.
	case committed(root, run.RunID, run.Plan).KeyCommitment != run.Plan.KeyCommitment:
		return refuse("was made with another root key: give that key")
	}
	return run, nil
}

// takeOver copies to the new directory the public results of an earlier run in from that do not read what
// the plans differ in, and names them in run. It copies the ledger in any case: its protocols had their
// chance to be accepted, and count. run.json is written after it, so the copy can be repeated after it
// was stopped.
func takeOver(ctx context.Context, from string, earlier manifest.Run, o Options, run *manifest.Run) error {
	run.Earlier, run.Stages = earlier.Used(), map[string]map[string]manifest.Digest{}
	changed := stages.JSONDifferences(earlier.Plan.Plan, run.Plan.Plan, "in the plan")
	if !o.DryRun { // nothing may change there while it is copied
		release, err := manifest.TakeLock(from)
		if err != nil {
			return err
		}
		defer release()
		if err := copyTree(ctx, from, o.Out, manifest.LedgerFolder); err != nil {
			return err
		}
	}
	for _, s := range stages.All {
		files, finished := earlier.Stages[s.Name]
		reads := func(field string) bool {
			return slices.ContainsFunc(s.Reads, func(begin string) bool { return strings.HasPrefix(field, begin) })
		}
		if !finished || s.Secret || slices.ContainsFunc(changed, reads) {
			continue
		}
		run.Stages[s.Name] = files
		for file := range files {
			if o.DryRun || strings.HasPrefix(file, manifest.LedgerFolder+"/") {
				continue
			}
			if err := copyResult(ctx, s, from, o.Out, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyResult copies the folder of an index, or a file, that vouches for a result.
func copyResult(ctx context.Context, s *stages.Stage, from, to, file string) error {
	if s.Formats == nil {
		return copyFile(ctx, from, to, file)
	}
	from, to = store.Join(from, s.Folder()), store.Join(to, s.Folder())
	is, err := manifest.DigestOf(ctx, from)
	if err != nil {
		return err
	}
	if has, err := manifest.DigestOf(ctx, to); err == nil && has == is {
		return nil
	}
	return manifest.CopyFolder(ctx, from, to)
}

// copyTree copies a public folder of a run directory, if it is there.
func copyTree(ctx context.Context, from, to, folder string) error {
	entries, err := store.List(ctx, store.Join(from, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err != nil {
			break
		}
		name := folder + "/" + e.Name
		switch {
		case strings.HasPrefix(e.Name, store.TempPrefix):
		case e.Dir:
			err = copyTree(ctx, from, to, name)
		default:
			err = copyFile(ctx, from, to, name)
		}
	}
	return err
}

// copyFile copies a public file of a run directory.
func copyFile(ctx context.Context, from, to, name string) error {
	to = store.Join(to, name)
	if err := store.MkdirAll(ctx, store.Dir(to), manifest.PublicDir); err != nil {
		return err
	}
	return store.Write(ctx, to, store.Options{Mode: manifest.PublicFile}, func(w io.Writer) error {
		return store.CopyTo(ctx, w, store.Join(from, name))
	})
}
