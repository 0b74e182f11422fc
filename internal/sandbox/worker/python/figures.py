"""The backend of matplotlib: plt.show() shows the open figures as pictures.

The environment names it, so that matplotlib imports it when it is first used.
"""

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from . import show


class FigureManager(FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        """Show the open figures, and close them, as a notebook does."""
        import matplotlib.pyplot as plt

        for number in plt.get_fignums():
            figure = plt.figure(number)
            if figure.axes or figure.texts or figure.images:
                show.current.show(figure)
            plt.close(figure)


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager
