"""``python -m dts_assets`` is the ``dts-assets`` command."""

from dts_assets.cli.main import main

if __name__ == "__main__":
    main()
