package ops

// PlantForgottenNext has a sort whose rows do not fit the memory forget which one is next.
func (s *Sort) PlantForgottenNext() { s.forgetsNext = true }
