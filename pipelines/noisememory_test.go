package pipelines_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"minsep/pipelines"
)

// TestNoiseInSharedMemory: the rows that are asked for in slots are those of the stream, of both
// types, with checkpoints too, and each is told with its step when it is there.
func TestNoiseInSharedMemory(t *testing.T) {
	const slot, steps, from = 4096, 20, 3
	for _, dtype := range []string{"float32", "float64"} {
		stage, o := newNoise(t)
		stage.DType = dtype
		if _, err := stage.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		n := pipelines.NoiseStream{FromStep: from, Shard: 1, Shards: 2, DType: dtype, Checkpoint: t.TempDir(), CheckpointSteps: 6}
		var out bytes.Buffer
		if _, err := n.Run(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		head, rows := readStream(t, out.Bytes())
		size := len(rows) / (steps - from)

		asks, asked := io.Pipe()
		said, says := io.Pipe()
		memory := make([]byte, 3*slot+100)
		n.Shared = &pipelines.NoiseMemory{Bytes: memory, Asked: asks}
		done := make(chan error, 1)
		go func() {
			_, err := n.Run(t.Context(), o, says)
			says.CloseWithError(io.EOF)
			done <- err
		}()
		var first [4096]byte
		if _, err := io.ReadFull(said, first[:]); err != nil {
			t.Fatal(err, <-done)
		}
		if got, _ := readStream(t, first[:]); got != head {
			t.Errorf("head %+v, want %+v", got, head)
		}
		for step := from; step < steps; step++ {
			at := step * step % 3
			clear(memory)
			asked.Write([]byte{byte(at)})
			var told [8]byte
			if _, err := io.ReadFull(said, told[:]); err != nil {
				t.Fatal(err, <-done)
			}
			if got := binary.LittleEndian.Uint64(told[:]); got != uint64(step) {
				t.Errorf("step %d in place of %d", got, step)
			}
			if !bytes.Equal(memory[at*slot:][:size], rows[(step-from)*size:][:size]) {
				t.Errorf("%s, step %d: other values than the stream's", dtype, step)
			}
			clear(memory[at*slot:][:size])
			if bytes.ContainsFunc(memory, func(r rune) bool { return r != 0 }) {
				t.Errorf("step %d: there are bytes outside of its slot", step)
			}
		}
		if rest, err := io.ReadAll(said); len(rest) > 0 || err != nil {
			t.Errorf("after the last row: %d bytes, %v", len(rest), err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoiseInSharedMemoryIsRefused(t *testing.T) {
	stage, o := newNoise(t)
	if _, err := stage.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for words, m := range map[string]pipelines.NoiseMemory{
		"4095 bytes: must have at least 4096 bytes":      {Bytes: make([]byte, 4095)},
		"slot 2: must be 0 to 1":                         {Bytes: make([]byte, 3*4096-1), Asked: strings.NewReader("\x00\x01\x02")},
		"ended before the last row":                      {Bytes: make([]byte, 4096), Asked: strings.NewReader("\x00")},
		"standard input ended before the last row was a": {Bytes: make([]byte, 4096), Asked: iotest.ErrReader(io.ErrUnexpectedEOF)},
	} {
		var out bytes.Buffer
		_, err := pipelines.NoiseStream{Shards: 1, Shared: &m}.Run(t.Context(), o, &out)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
		if m.Asked == nil && out.Len() > 0 {
			t.Errorf("%s, and %d bytes came before", words, out.Len())
		}
		if ended := strings.Contains(words, "ended"); ended != errors.Is(err, pipelines.ErrNotAsked) {
			t.Errorf("%v", err)
		}
	}
}
