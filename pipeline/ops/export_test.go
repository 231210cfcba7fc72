package ops

// PlantForgottenNext has a sort whose rows do not fit the memory forget which one is next.
func (s *Sort) PlantForgottenNext() { s.forgetsNext = true }

// ZScoreOfBlocks keeps samples in blocks of a size, however few there are.
func ZScoreOfBlocks(c ZScoreConfig, size int) *ZScore {
	z := NewZScore(c)
	z.blocks = newSampleBlocks(c.N, size)
	return z
}
