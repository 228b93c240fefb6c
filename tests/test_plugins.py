from concurrent.futures import ThreadPoolExecutor

from automem import plugins


def test_a_module_is_loaded_once_and_whole_by_many_threads(tmp_path):
    (tmp_path / "__init__.py").write_text("import time\ntime.sleep(0.1)\nTASKS = ('only',)\n")
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(plugins.load_module, [tmp_path] * 8))
    assert {module.TASKS for module in modules} == {("only",)}
    assert len({id(module) for module in modules}) == 1
