"""``python -m minikafka``, the same as the command ``minikafka``."""

import sys

from minikafka.cli.main import main

sys.exit(main())
