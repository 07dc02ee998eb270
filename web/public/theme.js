// Before the first paint: a chosen theme wins over the system's.
(function () {
  try {
    var chosen = localStorage.getItem('coilclaw.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch (error) {
    // Storage may be switched off; the system's theme it is.
  }
})();
