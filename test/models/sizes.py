"""The sizes that the models and their data share."""

VOCABULARY = 512
ODD_VOCABULARY = 509  # no two ranks divide it
SEQUENCE = 32
POSITIONS = 64  # more than SEQUENCE: the position table is read in part
FEATURES = 32
CLASSES = 10
IMAGE = (3, 32, 32)
SMALL_IMAGE = (3, 16, 16)
