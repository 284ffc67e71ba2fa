package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/store"
)

// checkpoints has the checkpoints of a stream of noise. See NoiseStream.Checkpoint.
type checkpoints struct {
	of     NoiseStream
	head   NoiseStreamHead
	stream *noise.Generator
	log    *slog.Logger
}

// wanted reports whether checkpoints are written: a stream that can begin anywhere needs none.
func (c checkpoints) wanted() bool { return c.of.Checkpoint != "" && !c.stream.Restartable() }

// next returns the step before which the stream writes its next checkpoint, or the last step.
func (c checkpoints) next() int {
	if !c.wanted() {
		return c.head.Steps
	}
	step, every := c.stream.Step(), c.of.CheckpointSteps
	return min(c.head.Steps, step-step%every+every)
}

// name returns the name of a step's checkpoint.
func (c checkpoints) name(step int) string {
	return manifest.NoiseStreamState(c.head.Shard, c.head.Shards, step)
}

// steps returns the steps of the checkpoints that are there, in order.
func (c checkpoints) steps(ctx context.Context) (steps []int, err error) {
	list, err := store.List(ctx, c.of.Checkpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint folder %s: %w", c.of.Checkpoint, err)
	}
	for _, e := range list {
		if shard, shards, step, ok := manifest.ParseNoiseStreamState(e.Name); ok && shard == c.head.Shard && shards == c.head.Shards {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// resume goes to the newest checkpoint that is not after the first step.
func (c checkpoints) resume(ctx context.Context) error {
	if !c.wanted() {
		return nil
	}
	// Streams that were killed while they wrote a checkpoint of the shard have left files.
	prefix := manifest.NoiseStreamStates(c.head.Shard, c.head.Shards)
	if err := store.RemoveLeft(ctx, c.of.Checkpoint, prefix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	steps, err := c.steps(ctx)
	if err != nil {
		return err
	}
	for _, step := range slices.Backward(steps) {
		if step > c.of.FromStep {
			continue
		}
		switch err := c.read(ctx, step); {
		case err == nil:
			return nil
		case errors.Is(err, noise.ErrCheckpoint):
			c.log.Warn("checkpoint " + c.name(step) + ": is damaged, or of steps that this training did not take: it is not used")
		case !errors.Is(err, fs.ErrNotExist): // one that is gone by now was removed by another stream of the shard
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// read goes to a checkpoint.
func (c checkpoints) read(ctx context.Context, step int) error {
	f, err := store.Open(ctx, store.Join(c.of.Checkpoint, c.name(step)))
	if err != nil {
		return err
	}
	defer f.Close()
	return c.stream.ReadCheckpoint(store.Reader(f))
}

// save writes the present state, and keeps the newest checkpoint before it.
func (c checkpoints) save(ctx context.Context) error {
	step := c.stream.Step()
	if !c.wanted() || step == c.head.Steps {
		return nil
	}
	if err := store.MkdirAll(ctx, c.of.Checkpoint, manifest.SecretDir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	path := store.Join(c.of.Checkpoint, c.name(step))
	o := store.Options{Mode: manifest.SecretFile, Size: c.stream.StateBytes()}
	if err := store.Write(ctx, path, o, c.stream.WriteCheckpoint); err != nil {
		return withoutRoom(fmt.Errorf("checkpoint: %w", err), c.of.Checkpoint,
			"make room, or give another --checkpoint, and begin again at the step that the trainer needs")
	}
	steps, err := c.steps(ctx)
	if err != nil {
		return err
	}
	for i, old := range steps {
		if i+1 < len(steps) && steps[i+1] < step {
			err := store.Remove(ctx, store.Join(c.of.Checkpoint, c.name(old)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // another stream of the shard may have removed it
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return nil
}
