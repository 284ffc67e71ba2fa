package noise

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// streamCheckpointMagic begins a checkpoint of a stream.
const streamCheckpointMagic = "minsep-noise-stream-checkpoint/1\n"

// WriteCheckpoint writes the state from which a stream of the same recipe, key and coordinates goes
// on at the present step: the rows that it holds. They are as secret as the noise. Later rows have
// the same bytes as without the interruption. If [Stream.Restartable] is true, a checkpoint saves
// nothing.
func (s *Stream) WriteCheckpoint(w io.Writer) error {
	head := s.checkpointHead(s.step)
	for _, next := range s.next {
		head = binary.LittleEndian.AppendUint64(head, uint64(next))
	}
	return writeState(w, head, s.ring, s.g.state)
}

// checkpointHead returns the head of a checkpoint: the magic, the commitment to the key, which
// binds the run id and all parameters, the coordinates, the layout of the rows, and the step.
func (s *Stream) checkpointHead(step int) []byte {
	b := append([]byte(streamCheckpointMagic), s.g.binding[:]...)
	for _, v := range []int64{s.g.lo, s.g.hi, int64(s.tiles), int64(s.slots), int64(s.tile), int64(len(s.g.state)), int64(step)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// ReadCheckpoint goes to the step of a checkpoint of the same recipe, key and coordinates. For any
// other checkpoint, and for a damaged one, the error wraps [ErrCheckpoint]; the stream must then
// not be used again.
func (s *Stream) ReadCheckpoint(r io.Reader) error {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	step, err := readHead(in, s.checkpointHead, 8, s.g.steps)
	if err != nil {
		return err
	}
	places := make([]byte, 8*len(s.next))
	if _, err := io.ReadFull(in, places); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	next := make([]int, 0, len(s.next))
	for place := range slices.Chunk(places, 8) {
		v := int64(binary.LittleEndian.Uint64(place))
		if v < int64(step) || v > int64(min(step+s.slots, s.g.steps)) {
			return fmt.Errorf("%w: it has rows of other steps", ErrCheckpoint)
		}
		next = append(next, int(v))
	}
	if err := readState(in, r, sum, s.ring, s.g.state); err != nil {
		return err
	}
	s.step, s.first, s.next = step, step, next
	return nil
}
